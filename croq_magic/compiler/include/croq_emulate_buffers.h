// Global buffers, far from each other, and the records of what threads do to memory. Included by croq_emulate_check.h
// alone.
#include <unistd.h>

namespace croq_inside {
namespace {

struct Record {
  uint32_t serial;   // of the block; 0: none
  uint16_t thread;
  uint8_t kind, pad;
  uint32_t clock, site;
};
struct Cell {
  Record write, reads[2];
  uint32_t stamp[3];  // how many fences and barriers of the grid there had been
  uint32_t sources;   // asynchronous copies under way that have yet to read it
};

// Rather refused than that the machine ends the process: what is mapped without reserve always is there at first.
int64_t physical_memory() { return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE); }

void* map_cells(int64_t count) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;
#endif
  if (count > physical_memory() / 2 / (int64_t)sizeof(Cell)) return nullptr;
  void* memory = mmap(nullptr, (size_t)count * sizeof(Cell), PROT_READ | PROT_WRITE, flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void drop_cells(Region& region) {
  if (region.cells) munmap((void*)region.cells, (size_t)region.count * sizeof(Cell));
  region.cells = nullptr;
  region.count = 0;
}

// Each buffer lies between zones of kZone bytes, whose use is reported, and deserts, whose use ends the thread besides:
// an index that is wrong by a row or a plane falls into them and not into another buffer. They cost addresses alone.
const int64_t kDesert = 1ll << 30;

// Those of all launches.
Region** buffers;
int64_t buffer_count, buffer_capacity;
pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;
// Launches look through all buffers there are, those of other threads' launches among them: while any runs, released ones
// are kept aside.
int64_t watches;
Region* set_aside;

// Without so many addresses to spare, buffers have neighbours.
bool map_buffer(Region& region, int64_t bytes) {
  if (bytes > physical_memory()) return false;
  const int64_t page = 4096, inside = (bytes + 2 * kZone + page - 1) / page * page;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;
#endif
  for (int64_t desert = kDesert; desert >= 0; desert = desert ? 0 : -1) {
    region.mapped = inside + 2 * desert;
    region.mapping = (char*)mmap(nullptr, (size_t)region.mapped, PROT_NONE, flags, -1, 0);
    if (region.mapping == MAP_FAILED) continue;
    region.low = region.mapping + desert;
    if (!mprotect(region.low, (size_t)inside, PROT_READ | PROT_WRITE)) {
      region.begin = region.low + kZone;
      region.end = region.begin + bytes;
      region.high = region.end + kZone;
      return true;
    }
    munmap(region.mapping, (size_t)region.mapped);
  }
  return false;
}

}  // namespace

// Memory for one global buffer. Null without memory.
EXPORT void* croq_emulate_allocate(int64_t bytes) {
  Region* region = bytes < 0 || bytes > 1ll << 46 ? nullptr : (Region*)calloc(1, sizeof(Region));
  if (!region) return nullptr;
  if (!map_buffer(*region, bytes)) {
    free(region);
    return nullptr;
  }
  region->space = CROQ_SPACE_GLOBAL;
  pthread_mutex_lock(&buffer_lock);
  if (buffer_count == buffer_capacity) {
    buffer_capacity = buffer_capacity * 2 + 64;
    buffers = (Region**)realloc((void*)buffers, sizeof(Region*) * (size_t)buffer_capacity);
  }
  buffers[buffer_count++] = region;
  pthread_mutex_unlock(&buffer_lock);
  return region->begin;
}

namespace {

void unmap_buffers(Region* first) {
  while (first) {
    Region* region = first;
    first = region->next;
    drop_cells(*region);
    munmap(region->mapping, (size_t)region->mapped);
    free(region);
  }
}

// The end of a launch.
void let_go_of_buffers() {
  Region* released = nullptr;
  pthread_mutex_lock(&buffer_lock);
  if (--watches == 0) released = set_aside, set_aside = nullptr;
  pthread_mutex_unlock(&buffer_lock);
  unmap_buffers(released);
}

}  // namespace

EXPORT void croq_emulate_release(void* place) {
  Region* region = nullptr;
  pthread_mutex_lock(&buffer_lock);
  for (int64_t i = 0; i < buffer_count && !region; ++i)
    if (buffers[i]->begin == place) {
      region = buffers[i];
      buffers[i] = buffers[--buffer_count];
    }
  if (region && watches) {
    region->next = set_aside;
    set_aside = region;
    region = nullptr;
  }
  pthread_mutex_unlock(&buffer_lock);
  unmap_buffers(region);
}

// Whether a buffer holds something (which is so if nothing else is said), or only what kernels write into it.
EXPORT void croq_emulate_filled(void* place, int32_t filled) {
  pthread_mutex_lock(&buffer_lock);
  for (int64_t i = 0; i < buffer_count; ++i)
    if (buffers[i]->begin == place) buffers[i]->fresh = !filled;
  pthread_mutex_unlock(&buffer_lock);
}

}  // namespace croq_inside
