// What `croq_device` does with OpenCL. The loader is opened when the first tileflow function is called, so a program
// starts, and says what is missing, on machines without OpenCL. Few functions are needed; they are declared here, since
// headers of OpenCL are often not installed.
//
// The environment: CROQ_OPENCL_DEVICE chooses a device by number, kind (gpu, cpu) or a part of its name, as it does in
// notebooks; CROQ_OPENCL_LOADER names the loader's library; CROQ_OPENCL_COPY=1 copies where memory could be shared.
#pragma once
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "croq_opencl_module.h"

// Where croqtile has found a loader (0) and runtimes that no loader finds by itself (1, separated by ":"). Programs that
// were linked elsewhere do without.
extern "C" __attribute__((weak)) const char* croq_opencl_places(int which);

namespace croq_device {
namespace opencl {
typedef void* handle;
typedef int32_t (*get_info)(handle, uint32_t, size_t, void*, size_t*);
#define CROQ_OPENCL(X)                                                                                             \
  X(int32_t, clGetPlatformIDs, (uint32_t, handle*, uint32_t*))                                                     \
  X(int32_t, clGetPlatformInfo, (handle, uint32_t, size_t, void*, size_t*))                                        \
  X(int32_t, clGetDeviceIDs, (handle, uint64_t, uint32_t, handle*, uint32_t*))                                     \
  X(int32_t, clGetDeviceInfo, (handle, uint32_t, size_t, void*, size_t*))                                          \
  X(handle, clCreateContext, (const intptr_t*, uint32_t, const handle*, void*, void*, int32_t*))                   \
  X(handle, clCreateCommandQueue, (handle, handle, uint64_t, int32_t*))                                            \
  X(handle, clCreateProgramWithSource, (handle, uint32_t, const char**, const size_t*, int32_t*))                  \
  X(handle, clCreateProgramWithBinary,                                                                             \
    (handle, uint32_t, const handle*, const size_t*, const unsigned char**, int32_t*, int32_t*))                   \
  X(int32_t, clReleaseProgram, (handle))                                                                           \
  X(int32_t, clBuildProgram, (handle, uint32_t, const handle*, const char*, void*, void*))                         \
  X(int32_t, clGetProgramBuildInfo, (handle, handle, uint32_t, size_t, void*, size_t*))                            \
  X(handle, clCreateKernel, (handle, const char*, int32_t*))                                                       \
  X(int32_t, clSetKernelArg, (handle, uint32_t, size_t, const void*))                                              \
  X(handle, clCreateBuffer, (handle, uint64_t, size_t, void*, int32_t*))                                           \
  X(int32_t, clReleaseMemObject, (handle))                                                                         \
  X(int32_t, clEnqueueWriteBuffer, (handle, handle, uint32_t, size_t, size_t, const void*, uint32_t, const void*, void*)) \
  X(int32_t, clEnqueueReadBuffer, (handle, handle, uint32_t, size_t, size_t, void*, uint32_t, const void*, void*)) \
  X(int32_t, clEnqueueFillBuffer, (handle, handle, const void*, size_t, size_t, size_t, uint32_t, const void*, void*)) \
  X(int32_t, clEnqueueNDRangeKernel,                                                                               \
    (handle, handle, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t, const void*, void*))         \
  X(int32_t, clFinish, (handle))
struct functions {
#define X(result, name, parameters) result(*name) parameters;
  CROQ_OPENCL(X)
#undef X
  int32_t (*clSetKernelArgSVMPointer)(handle, uint32_t, const void*);  // from version 2.0
};
enum { kGpu = 4, kAccelerator = 8, kCpu = 2, kAll = -1 };
enum {
  kDeviceType = 0x1000, kMaxWorkGroupSize = 0x1004, kAvailable = 0x1027, kCompilerAvailable = 0x1028, kName = 0x102b,
  kOpenclCVersion = 0x103d, kSvm = 0x1053, kGeneric = 0x1069, kDriverVersion = 0x102d, kPlatformName = 0x902, kBuildLog = 0x1183
};

struct device {
  handle id;
  std::string name;  // platform and device
  uint64_t type;
  bool generic;
  int rank() const { return (type & kGpu ? 0 : type & kAccelerator ? 2 : type & kCpu ? 4 : 6) + (generic ? 0 : 1); }
};

// Runtimes that are built on LLVM take the signals of faults and ask for bug reports about programs that abort. While
// one of these lives, they may; then the signals do again what they did.
class kept_signals {
  static constexpr int kSignals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGQUIT, SIGSYS};
  struct sigaction before_[sizeof kSignals / sizeof kSignals[0]];

 public:
  kept_signals() {
    for (size_t i = 0; i < sizeof kSignals / sizeof kSignals[0]; ++i) sigaction(kSignals[i], nullptr, &before_[i]);
  }
  kept_signals(const kept_signals&) = delete;
  ~kept_signals() {
    for (size_t i = 0; i < sizeof kSignals / sizeof kSignals[0]; ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
};

// The device of this process, with a context and one queue, in order.
struct session {
  functions api = {};
  handle id = nullptr, context = nullptr, queue = nullptr;
  std::string name, problem;
  size_t most_threads = 0;
  bool unified = false;
  std::mutex lock;
  bool opened = false;
};
inline session& state() {
  static session* one = new session;  // never destroyed: a program may call a function while it ends
  return *one;
}

inline std::string text_of(get_info query, handle of, uint32_t what) {
  size_t size = 0;
  if (query(of, what, 0, nullptr, &size) || !size) return "";
  std::string out(size, '\0');
  query(of, what, size, &out[0], nullptr);
  out.resize(std::strlen(out.c_str()));
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
  out.erase(0, out.find_first_not_of(' '));
  return out;
}
template <typename T>
T number_of(const functions& api, handle of, uint32_t what) {
  T out = 0;
  return api.clGetDeviceInfo(of, what, sizeof out, &out, nullptr) ? 0 : out;
}

inline std::string load(functions& api) {
  const char* named = std::getenv("CROQ_OPENCL_LOADER");
  const char* found = croq_opencl_places ? croq_opencl_places(0) : "";
  void* library = nullptr;
  if (named && *named) library = dlopen(named, RTLD_NOW | RTLD_GLOBAL);
  else
    for (const char* name : {"libOpenCL.so.1", "libOpenCL.so", found})
      if (!library && *name) library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (!library)
    return std::string("OpenCL is not installed here (") + (dlerror() ? "no libOpenCL.so.1 loads" : "no loader") +
           "); install an OpenCL runtime, or name its loader by CROQ_OPENCL_LOADER";
#define X(result, name, parameters)                                                    \
  if (!(api.name = (result(*) parameters)dlsym(library, #name))) return "the OpenCL loader has no " #name;
  CROQ_OPENCL(X)
#undef X
  api.clSetKernelArgSVMPointer = (int32_t(*)(handle, uint32_t, const void*))dlsym(library, "clSetKernelArgSVMPointer");
  return "";
}

// Asks for platforms, which is when a loader loads them. A loader finds the system's runtimes; others are named to it by
// the environment: some take a folder in the place of the system's, some a list.
inline std::vector<handle> platforms(const functions& api) {
  const char* places = croq_opencl_places ? croq_opencl_places(1) : "";
  std::vector<std::string> files;
  char folder[] = "/tmp/croq-opencl-XXXXXX";
  const bool said = std::getenv("OCL_ICD_VENDORS") || std::getenv("OCL_ICD_FILENAMES");
  if (!said && *places && mkdtemp(folder)) {
    std::string list = places, rest = list + ":";
    const int copied = std::system((std::string("cp /etc/OpenCL/vendors/*.icd ") + folder + " 2>/dev/null").c_str());
    (void)copied;
    for (size_t end; (end = rest.find(':')) != std::string::npos; rest.erase(0, end + 1)) {
      files.push_back(std::string(folder) + "/croq" + std::to_string(files.size()) + ".icd");
      if (FILE* file = std::fopen(files.back().c_str(), "w")) {
        std::fprintf(file, "%s\n", rest.substr(0, end).c_str());
        std::fclose(file);
      }
    }
    setenv("OCL_ICD_VENDORS", folder, 1);
    setenv("OCL_ICD_FILENAMES", list.c_str(), 1);
  }
  uint32_t count = 0;
  std::vector<handle> out;
  if (!api.clGetPlatformIDs(0, nullptr, &count) && count) {
    out.resize(count);
    api.clGetPlatformIDs(count, out.data(), nullptr);
  }
  if (!files.empty()) {
    unsetenv("OCL_ICD_VENDORS");
    unsetenv("OCL_ICD_FILENAMES");
    const int removed = std::system((std::string("rm -rf ") + folder).c_str());
    (void)removed;
  }
  return out;
}

inline std::string lower(std::string text) {
  for (char& c : text) c = (char)std::tolower((unsigned char)c);
  return text;
}
inline bool contains(const std::string& text, const std::string& part) {
  return lower(text).find(lower(part)) != std::string::npos;
}
// The kind of device that a word asks for, 0 for a part of a name.
inline uint64_t kind_of(const std::string& word) {
  const std::string wanted = lower(word);
  return wanted == "gpu" ? kGpu : wanted == "cpu" ? kCpu : wanted == "accelerator" ? kAccelerator : 0;
}

inline std::vector<device> devices(const functions& api) {
  std::vector<device> out;
  for (handle platform : platforms(api)) {
    uint32_t count = 0;
    if (api.clGetDeviceIDs(platform, (uint64_t)kAll & 0xffffffffu, 0, nullptr, &count) || !count) continue;
    std::vector<handle> ids(count);
    api.clGetDeviceIDs(platform, (uint64_t)kAll & 0xffffffffu, count, ids.data(), nullptr);
    for (handle id : ids) {
      if (!number_of<uint32_t>(api, id, kAvailable) || !number_of<uint32_t>(api, id, kCompilerAvailable)) continue;
      const std::string version = text_of(api.clGetDeviceInfo, id, kOpenclCVersion);  // "OpenCL C 1.2 ..."
      const bool two = version.size() > 9 && version[9] == '2';
      out.push_back({id, text_of(api.clGetPlatformInfo, platform, kPlatformName) + ": " +
                             text_of(api.clGetDeviceInfo, id, kName),
                     number_of<uint64_t>(api, id, kDeviceType), two || number_of<uint32_t>(api, id, kGeneric) != 0});
    }
  }
  std::vector<device> sorted;  // std::stable_sort takes a tenth of a second to compile
  for (int rank = 0; rank < 8; ++rank)
    for (const device& each : out)
      if (each.rank() == rank) sorted.push_back(each);
  return sorted;
}

inline std::string choose(const std::vector<device>& known, const module& kernels, device& chosen) {
  if (known.empty()) return "OpenCL has no device here; install a runtime (`pip install croq-magic[opencl-cpu]`)";
  const char* named = std::getenv("CROQ_OPENCL_DEVICE");
  const std::string wanted = named && *named ? named : kernels.wanted;
  chosen = known[0];
  if (wanted.empty() || wanted == "native") {
    for (const device& each : known)
      if (each.name == kernels.made_for) {
        chosen = each;
        break;
      }
    return "";
  }
  const bool number = wanted.find_first_not_of("0123456789") == std::string::npos;
  if (number && std::strtoul(wanted.c_str(), nullptr, 10) < known.size()) {
    chosen = known[std::strtoul(wanted.c_str(), nullptr, 10)];
    return "";
  }
  const uint64_t kind = kind_of(wanted);
  std::string listed;
  for (const device& each : known) {
    if (kind ? (each.type & kind) != 0 : contains(each.name, wanted)) {
      chosen = each;
      return "";
    }
    listed += (listed.empty() ? "" : "; ") + std::to_string(&each - known.data()) + " is " + each.name;
  }
  return "there is no OpenCL device `" + wanted + "`; " + listed;
}

inline const char* name_of(int32_t code) {
  switch (code) {
    case -4: return "CL_MEM_OBJECT_ALLOCATION_FAILURE";
    case -5: return "CL_OUT_OF_RESOURCES";
    case -6: return "CL_OUT_OF_HOST_MEMORY";
    case -11: return "CL_BUILD_PROGRAM_FAILURE";
    case -30: return "CL_INVALID_VALUE";
    case -36: return "CL_INVALID_COMMAND_QUEUE";
    case -38: return "CL_INVALID_MEM_OBJECT";
    case -45: return "CL_INVALID_PROGRAM_EXECUTABLE";
    case -46: return "CL_INVALID_KERNEL_NAME";
    case -51: return "CL_INVALID_ARG_SIZE";
    case -52: return "CL_INVALID_KERNEL_ARGS";
    case -54: return "CL_INVALID_WORK_GROUP_SIZE";
    case -55: return "CL_INVALID_WORK_ITEM_SIZE";
    case -61: return "CL_INVALID_BUFFER_SIZE";
    default: return nullptr;
  }
}
inline const char* failed(const char* what, int32_t code) {
  if (!code) return nullptr;
  const char* name = name_of(code);
  const char* device = state().name.c_str();
  if (code == -4 || code == -6 || code == -61) return message("not enough memory on %s", device);
  return name ? message("%s: %s fails with %s", device, what, name) : message("%s: %s fails with %d", device, what, code);
}

inline std::string start(session& s, const module& kernels) {
  std::string problem = load(s.api);
  device chosen = {};
  if (problem.empty()) problem = choose(devices(s.api), kernels, chosen);
  if (!problem.empty()) return problem;
  s.id = chosen.id;
  s.name = chosen.name;
  s.most_threads = number_of<size_t>(s.api, s.id, kMaxWorkGroupSize);
  const char* copies = std::getenv("CROQ_OPENCL_COPY");
  const bool shares = (number_of<uint64_t>(s.api, s.id, kSvm) & 4) != 0;  // any memory of the process
  s.unified = shares && s.api.clSetKernelArgSVMPointer && !(copies && !std::strcmp(copies, "1"));
  int32_t code = 0;
  s.context = s.api.clCreateContext(nullptr, 1, &s.id, nullptr, nullptr, &code);
  if (!code) s.queue = s.api.clCreateCommandQueue(s.context, s.id, 0, &code);
  const char* said = failed("clCreateContext", code);
  return said ? said : "";
}

// What the device's compiler has made of the text before, if this is the device and the driver.
inline handle ready_made(session& s, const module& kernels) {
  if (kernels.image == kernels.image_end || s.name != kernels.made_for) return nullptr;
  if (text_of(s.api.clGetDeviceInfo, s.id, kDriverVersion) != kernels.driver) return nullptr;
  const size_t bytes = (size_t)(kernels.image_end - kernels.image);
  const unsigned char* image = kernels.image;
  int32_t of_image = 0, code = 0;
  const handle made = s.api.clCreateProgramWithBinary(s.context, 1, &s.id, &bytes, &image, &of_image, &code);
  if (!made || code || of_image) return nullptr;
  if (!s.api.clBuildProgram(made, 1, &s.id, "", nullptr, nullptr)) return made;
  s.api.clReleaseProgram(made);
  return nullptr;
}

inline const char* build(session& s, module& kernels) {
  int32_t code = 0;
  if ((kernels.program = ready_made(s, kernels))) return nullptr;
  kernels.program = s.api.clCreateProgramWithSource(s.context, 1, &kernels.text, nullptr, &code);
  if (code) return failed("clCreateProgramWithSource", code);
  code = s.api.clBuildProgram(kernels.program, 1, &s.id, kernels.options, nullptr, nullptr);
  if (!code) return nullptr;
  size_t size = 0;
  s.api.clGetProgramBuildInfo(kernels.program, s.id, kBuildLog, 0, nullptr, &size);
  std::string log(size, '\0');
  if (size) s.api.clGetProgramBuildInfo(kernels.program, s.id, kBuildLog, size, &log[0], nullptr);
  kernels.program = nullptr;
  return message("the OpenCL compiler of %s refuses the kernels:\n%s", s.name.c_str(), log.c_str());
}
}  // namespace opencl

CROQ_DEVICE_FUNCTION bool unified() { return opencl::state().unified; }

CROQ_DEVICE_FUNCTION const char* open(module& kernels) {
  opencl::session& s = opencl::state();
  std::lock_guard<std::mutex> guard(s.lock);
  if (s.opened && kernels.program) return nullptr;
  const opencl::kept_signals kept;
  if (!s.opened) {
    s.problem = opencl::start(s, kernels);
    s.opened = true;
  }
  if (!s.problem.empty()) return s.problem.c_str();
  return kernels.program || !*kernels.text ? nullptr : opencl::build(s, kernels);
}

CROQ_DEVICE_FUNCTION const char* allocate(void** memory, size_t bytes) {
  opencl::session& s = opencl::state();
  int32_t code = 0;
  *memory = s.api.clCreateBuffer(s.context, 1, bytes, nullptr, &code);
  return opencl::failed("clCreateBuffer", code);
}
CROQ_DEVICE_FUNCTION void release(void* memory) { opencl::state().api.clReleaseMemObject(memory); }
CROQ_DEVICE_FUNCTION const char* zero(void* memory, size_t bytes) {
  opencl::session& s = opencl::state();
  const unsigned char nothing = 0;
  if (!bytes) return nullptr;
  const int32_t code = s.api.clEnqueueFillBuffer(s.queue, memory, &nothing, 1, 0, bytes, 0, nullptr, nullptr);
  return opencl::failed("clEnqueueFillBuffer", code);
}
CROQ_DEVICE_FUNCTION const char* upload(void* memory, const void* from, size_t bytes) {
  opencl::session& s = opencl::state();
  if (!bytes) return nullptr;
  const int32_t code = s.api.clEnqueueWriteBuffer(s.queue, memory, 1, 0, bytes, from, 0, nullptr, nullptr);
  return opencl::failed("clEnqueueWriteBuffer", code);
}
CROQ_DEVICE_FUNCTION const char* download(void* to, void* memory, size_t bytes) {
  opencl::session& s = opencl::state();
  if (!bytes) return nullptr;
  const int32_t code = s.api.clEnqueueReadBuffer(s.queue, memory, 1, 0, bytes, to, 0, nullptr, nullptr);
  return opencl::failed("clEnqueueReadBuffer", code);
}
CROQ_DEVICE_FUNCTION const char* synchronize() {
  opencl::session& s = opencl::state();
  return opencl::failed("clFinish", s.api.clFinish(s.queue));
}

CROQ_DEVICE_FUNCTION const char* launch(module& kernels, const char* name, extents grid, extents block, int64_t shared_bytes,
                          const argument* arguments, int count, bool, void*) {
  opencl::session& s = opencl::state();
  const size_t threads = (size_t)(block.x * block.y * block.z);
  if (threads > s.most_threads)
    return message("a block has %zu threads, %s runs at most %zu", threads, s.name.c_str(), s.most_threads);
  std::lock_guard<std::mutex> guard(kernels.lock);  // a kernel's arguments are part of it
  void* kernel = nullptr;
  for (auto& known : kernels.kernels)
    if (known.first == name) kernel = known.second;
  int32_t code = 0;
  if (!kernel) {
    kernel = s.api.clCreateKernel(kernels.program, name, &code);
    if (code) return opencl::failed("clCreateKernel", code);
    kernels.kernels.emplace_back(name, kernel);
  }
  int place = 0;
  for (; place < count && !code; ++place) {
    const argument& each = arguments[place];
    if (each.size) code = s.api.clSetKernelArg(kernel, (uint32_t)place, each.size, each.bytes);
    else if (s.unified) code = s.api.clSetKernelArgSVMPointer(kernel, (uint32_t)place, each.memory);
    else code = s.api.clSetKernelArg(kernel, (uint32_t)place, sizeof each.memory, &each.memory);
  }
  if (!code && shared_bytes) code = s.api.clSetKernelArg(kernel, (uint32_t)place, (size_t)shared_bytes, nullptr);
  if (code) return opencl::failed("clSetKernelArg", code);
  const size_t local[3] = {(size_t)block.x, (size_t)block.y, (size_t)block.z};
  const size_t total[3] = {(size_t)grid.x * local[0], (size_t)grid.y * local[1], (size_t)grid.z * local[2]};
  code = s.api.clEnqueueNDRangeKernel(s.queue, kernel, 3, nullptr, total, local, 0, nullptr, nullptr);
  if (code == -5)
    return message("%s has too few resources for a block of %zu threads (%lld bytes of dynamic shared memory)",
                   s.name.c_str(), threads, (long long)shared_bytes);
  return opencl::failed("clEnqueueNDRangeKernel", code);
}
}  // namespace croq_device
