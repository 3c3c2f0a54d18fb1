// What a program says of its kernels to OpenCL.
#pragma once
#include <utility>

#include "croq_device_functions.h"

namespace croq_device {
// The text of one program's kernels and how it is built; `made_for` is the device that decided how it was written, and
// from `image` to `image_end` lies what its compiler made of it, where the driver is the one of that version.
struct module {
  const char *text, *options, *wanted, *made_for;
  const unsigned char *image, *image_end;
  const char* driver;
  void* program;
  std::mutex lock;
  std::vector<std::pair<const char*, void*>> kernels;
  module(const char* text, const char* options, const char* wanted, const char* made_for,
         const unsigned char* image = nullptr, const unsigned char* image_end = nullptr, const char* driver = "")
      : text(text), options(options), wanted(wanted), made_for(made_for), image(image), image_end(image_end),
        driver(driver), program(nullptr) {}
};
}  // namespace croq_device
