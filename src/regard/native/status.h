// The result of every exported function: exceptions end here and become Python's in native/library.py.

#pragma once

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>

namespace regard {

enum Status { OK = 0, OUT_OF_MEMORY = 1, NOT_FINITE = 2, FAILED = 3 };

struct NotFinite : std::exception {  // a result is NaN or infinite
  const char *what() const noexcept override { return "a result is not finite"; }
};

inline thread_local char error_message[256];  // of the last call of this thread that failed

inline int failed(Status status, const char *message) noexcept {
  std::snprintf(error_message, sizeof error_message, "%s", message);
  return status;
}

template <typename Call>
int status_of(const Call &call) noexcept {
  try {
    call();
    return OK;
  } catch (const std::bad_alloc &error) {
    return failed(OUT_OF_MEMORY, error.what());
  } catch (const std::length_error &error) {  // more than a vector can ever hold
    return failed(OUT_OF_MEMORY, error.what());
  } catch (const NotFinite &error) {
    return failed(NOT_FINITE, error.what());
  } catch (const std::exception &error) {
    return failed(FAILED, error.what());
  } catch (...) {
    return failed(FAILED, "an unknown exception");
  }
}

}  // namespace regard
