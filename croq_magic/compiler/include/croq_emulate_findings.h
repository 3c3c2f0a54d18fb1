// What the emulator finds in a whole program, as sentences. Notebooks have the same in Python (findings.py); here the
// table of lines is made when the program is built. Included by croq_host_emulate.h alone.
#pragma once

namespace croq_device {
namespace emulate {
// One place in the module: the line of the program that the instructions up to the next one come from, 0 for none.
struct line_of {
  uint32_t address, line, file;
};

struct describer {
  const module& kernels;
  const croq_emulate_launch& launch;
  const croq_finding& f;

  // The line of the call that returns to a site. For a prelude's function that stands inline, the nearest line before.
  std::string at(uint32_t site) const {
    if (!site) return "";
    const int64_t count = kernels.facts[5];
    const line_of* const rows = (const line_of*)(kernels.facts + 6 + 2 * kernels.facts[4]);
    const line_of* row = std::lower_bound(rows, rows + count, site, [](const line_of& a, uint32_t b) { return a.address < b; });
    if (row == rows || !row[-1].line) return "";
    return (row[-1].file ? " at line " : " at line ") + std::to_string(row[-1].line) + (row[-1].file ? "" : " of the kernels");
  }
  static std::string index(uint32_t linear, const croq_index& extents) {
    const uint32_t x = linear % extents.x, y = linear / extents.x % extents.y, z = linear / (extents.x * extents.y);
    const std::string first = std::to_string(x);
    if (extents.z > 1) return "(" + first + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
    return extents.y > 1 ? "(" + first + ", " + std::to_string(y) + ")" : first;
  }
  std::string who(bool other = false) const {
    const uint32_t thread = other ? f.other_thread : f.thread;
    const bool same = other && (f.kind == CROQ_FOUND_DIVERGENT || f.kind == CROQ_FOUND_MASK || f.kind == CROQ_FOUND_BARRIER);
    const uint32_t block = other && !same ? f.other_block : f.block;
    const std::string text = "thread " + index(thread, launch.block);
    return other && block == f.block ? text : text + " of block " + index(block, launch.grid);
  }
  static const char* verb(int32_t access) {
    if (access & 4) return " copies asynchronously to ";
    return (access & 3) == 0 ? " reads " : (access & 3) == 1 ? " writes " : " updates ";
  }
  std::string place() const {
    const std::string byte = "byte " + std::to_string(f.offset) + " of ";
    if (f.space == CROQ_SPACE_GLOBAL) return byte + "a global buffer of " + std::to_string(f.extent) + " bytes";
    if (f.space == CROQ_SPACE_SHARED) return byte + "shared memory";
    return byte + (f.space == CROQ_SPACE_DYNAMIC ? "dynamic shared memory" : f.space == CROQ_SPACE_MODULE ? "the module's variables" : "memory");
  }
  std::string beyond() const {
    const char* where = f.space == CROQ_SPACE_GLOBAL   ? "a global buffer"
                        : f.space == CROQ_SPACE_SHARED ? "static shared memory"
                        : f.space == CROQ_SPACE_DYNAMIC ? "dynamic shared memory"
                                                        : nullptr;
    const std::string size = std::to_string(f.size) + " bytes ";
    if (!where) return size + "outside every buffer";
    const int64_t behind = f.offset > f.extent ? f.offset - f.extent : 0;
    const std::string side = f.offset < 0 ? std::to_string(-f.offset) + " bytes before "
                                          : std::to_string(behind) + " bytes behind the end of ";
    return size + side + where + " of " + std::to_string(f.extent) + " bytes";
  }
  std::string times() const { return f.count > 1 ? " (" + std::to_string(f.count) + " times)" : ""; }
  std::string deadlock() const {
    std::string waits;
    for (int i = 0; i < 8; i += 2) {
      const int64_t key = f.details[i], count = f.details[i + 1];
      if (!count) continue;
      const int64_t state = key >> 28 & 15, detail = key >> 24 & 15;
      static const char* const known[] = {"", "a block barrier", "the other lanes of the warp", "an mbarrier",
                                          "the grid's barrier", "", "the cluster's barrier"};
      const std::string what = state == CROQ_AT_BARRIER && detail ? "barrier " + std::to_string(detail)
                               : state != CROQ_SPINS              ? known[state]
                                                                  : "what others write";
      waits += (waits.empty() ? "" : ", ") + std::to_string(count) + (count == 1 ? " thread for " : " threads for ") +
               what + at((uint32_t)(key >> 32));
    }
    return "deadlock in block " + index(f.block, launch.grid) + ": waiting are " + waits;
  }
  std::string fault() const {
    const std::string it = who() + (f.access == 0 ? " reads" : f.access == 1 ? " writes" : " uses");
    const std::string line = at(f.site);
    char address[32];
    std::snprintf(address, sizeof address, "0x%llx", (unsigned long long)f.buffer);
    switch (f.details[0]) {
      case 1: return it + (f.access < 0 ? "" : " through") + " a null pointer" + line + " (address " + address + ")";
      case 2: return it + " address " + address + line + ", where there is no memory of the kernel's";
      case 3: return it + " an address that no memory can have" + line;
      case 4:
        return who() + " needs more than its " + std::to_string(f.extent >> 10) +
               " KiB of local memory" + line +
               ": large arrays, an index far outside one, or a function that calls itself too often";
      case 5: return who() + " divides an integer by zero, or the least one by -1" + line;
      default: return who() + " comes to an instruction that stops it" + line;
    }
  }
  std::string sentence() const {
    switch (f.kind) {
      case CROQ_FOUND_RACE:
        return "data race: " + who() + verb(f.access) + place() + at(f.site) + " and " + who(true) +
               verb(f.other_access) + "it" + at(f.other_site) + ", with no barrier between" + times();
      case CROQ_FOUND_OUTSIDE: return who() + verb(f.access) + beyond() + at(f.site) + times();
      case CROQ_FOUND_UNINITIALISED:
        return who() + " reads " + place() + at(f.site) + ", but nobody" +
               (f.space == CROQ_SPACE_GLOBAL ? "" : " in the block") + " has written it" + times();
      case CROQ_FOUND_DIVERGENT:
        return "divergent barrier: " + who() + " waits" + at(f.site) + ", but " + who(true) + " at the barrier" +
               at(f.other_site) + times();
      case CROQ_FOUND_ENDED:
        return "divergent barrier: " + std::to_string(f.details[0]) + " threads of block " +
               index(f.block, launch.grid) + " wait" + at(f.site) + ", but " + std::to_string(f.details[1]) +
               " ended without coming there" + times();
      case CROQ_FOUND_DEADLOCK: return deadlock();
      case CROQ_FOUND_PENDING:
        return who() + verb(f.access) + place() + at(f.site) + " while an asynchronous copy of " + who(true) +
               at(f.other_site) + " may still " + (f.details[0] ? "read it: wait for the copy and meet at a barrier first"
                                                       : "write it: wait for the copy first") + times();
      case CROQ_FOUND_MASK:
        if (f.details[0] == 2)
          return who() + " asks lane " + std::to_string(f.details[1]) + " of its warp" + at(f.site) +
                 ", which has ended or never was" + times();
        return "lanes of one warp meet in different operations: " + who() + at(f.site) + ", " + who(true) +
               at(f.other_site);
      case CROQ_FOUND_BARRIER:
        if (f.details[1] == 1)
          return who() + " uses barrier " + std::to_string(f.details[0]) + " for " + std::to_string(f.details[2]) +
                 " threads" + at(f.site) + ", which is not a number of whole warps";
        if (f.details[1] == 2)
          return who() + " comes to barrier " + std::to_string(f.details[0]) + at(f.site) + " with another count than " +
                 who(true) + at(f.other_site);
        if (f.details[1] == 3)
          return who() + " initialises an mbarrier for " + std::to_string(f.details[2]) + " arrivals" + at(f.site);
        if (f.details[1] == 4)
          return who() + " arrives at block " + std::to_string(f.details[2]) + " of its cluster" + at(f.site) +
                 ", which has fewer";
        if (f.details[1] == 5)
          return who() + " arrives at block " + std::to_string(f.details[2]) + " of its cluster" + at(f.site) +
                 ", which has ended";
        return who() + " uses a barrier that is not there" + at(f.site);
      case CROQ_FOUND_ELEMENT:
        return who() + " uses element " + std::to_string(f.details[0]) + " of an array of " +
               std::to_string(f.details[1]) + at(f.site) + times();
      case CROQ_FOUND_ALIGNMENT:
        if (f.details[2])
          return who() + verb(f.access) + std::to_string(f.size) + " bytes at once" + at(f.site) +
                 ", but the address is not a multiple of that" + times();
        return who() + " copies " + std::to_string(f.size) + " bytes asynchronously" + at(f.site) +
               ", but an address is not a multiple of that" + times();
      case CROQ_FOUND_FAULT: return fault();
      default:
        if (f.size == 2) return who() + " finds `" + (const char*)f.buffer + "` false, which it asserts," + at(f.site);
        return who() + (f.size == 1 ? " calls abort" : f.size == 3 ? " calls exit" : " stops the kernel") + at(f.site);
    }
  }
};

inline const char* described(const module& kernels, const char* kernel, const croq_emulate_launch& launch) {
  std::string text;
  for (int32_t i = 0; i < launch.report->count && i < CROQ_FINDINGS; ++i) {
    const croq_finding& finding = launch.report->findings[i];
    if (!finding.kind) return "the emulator has not enough memory: for each byte that a kernel uses it keeps 16";
    text += (text.empty() ? "" : "\n") + std::string(kernel) + ": " + describer{kernels, launch, finding}.sentence();
  }
  return message("%s", text.c_str());
}
}  // namespace emulate
}  // namespace croq_device
