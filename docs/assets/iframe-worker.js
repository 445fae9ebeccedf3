// Run the search worker in a hidden iframe where the site is opened from a disk:
// browsers refuse to start a worker from a file:// address.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source === inner) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        }
      });
      inner.document.write(
        `<script>postMessage = (message) => parent.postMessage(message, "*");</script>` +
          `<script src="${url}"></script>`,
      );
      inner.document.close();
      this.ready = new Promise((resolve) => (inner.onload = resolve)); // open() drops listeners
    }

    postMessage(data) {
      const event = new MessageEvent("message", { data });
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(event));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
