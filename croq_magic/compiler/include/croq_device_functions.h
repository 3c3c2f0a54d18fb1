// What the host part of a tileflow function asks of a device with memory of its own. CROQ_DEVICE_FUNCTION is empty where
// these functions are compiled apart from programs; else they are defined in the same file.
#pragma once
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#ifndef CROQ_DEVICE_FUNCTION
#define CROQ_DEVICE_FUNCTION inline
#endif

// Work is done in the order in which it is asked for. Functions that give text give null, or what went wrong.
namespace croq_device {
struct module;  // the kernels of one program
struct argument {
  union {
    void* memory;
    unsigned char bytes[8];
  };
  uint32_t size;  // of the bytes; 0 for memory
};
struct extents {
  int64_t x, y, z;
};

CROQ_DEVICE_FUNCTION bool unified();  // kernels work on memory of the host where it lies
CROQ_DEVICE_FUNCTION const char* open(module& kernels);
CROQ_DEVICE_FUNCTION const char* allocate(void** memory, size_t bytes);
CROQ_DEVICE_FUNCTION void release(void* memory);
CROQ_DEVICE_FUNCTION const char* zero(void* memory, size_t bytes);
CROQ_DEVICE_FUNCTION const char* upload(void* memory, const void* from, size_t bytes);
CROQ_DEVICE_FUNCTION const char* download(void* to, void* memory, size_t bytes);  // after all work so far
CROQ_DEVICE_FUNCTION const char* launch(module& kernels, const char* kernel, extents grid, extents block,
                                        int64_t shared_bytes, const argument* arguments, int count, bool cooperative,
                                        void* stream);
CROQ_DEVICE_FUNCTION const char* synchronize();

// Room for a message; one thread reads it before it asks for something else.
__attribute__((format(printf, 1, 2))) inline const char* message(const char* format, ...) {
  static thread_local char text[8192];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  return text;
}
}  // namespace croq_device
