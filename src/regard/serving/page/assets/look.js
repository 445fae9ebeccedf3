// Addresses of the attention page.

/** Return the address of the page that shows the attention of a text, with the theme of this page. */
export function lookAddress(model, texts) {
  const { theme } = document.documentElement.dataset;
  return `regard/look/#${new URLSearchParams({ model, ...texts, theme })}`;
}
