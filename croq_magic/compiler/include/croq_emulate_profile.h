// Counting: what the requests of warps cost, per place in the source. Included by croq_emulate_check.h alone.
//
// Lanes of a warp run one after the other, so a request is put together afterwards: the n-th access of one lane at a place
// and the n-th of the others, between two barriers of the block, are one request.
namespace croq_inside {
namespace {

struct Request {
  uint32_t lanes;
  uint32_t address[32];
};
struct Trace {  // one place, one warp
  Request* requests;
  uint32_t count, capacity;
  uint32_t at[32];
};
struct Spot {
  croq_counts counts;
  Trace* traces;
  uint32_t warps;
};
struct Counts {
  Spot* spots;
  uint32_t count, capacity;
  uint32_t* table;  // spot + 1 by hash
  uint32_t table_size;
};
const uint32_t kMostRequests = 1 << 16;  // of one trace: 8 MiB

Spot* find_spot(Counts* counts, uint32_t site, int32_t space, int32_t access) {
  if (counts->count * 2 >= counts->table_size) {
    const uint32_t size = counts->table_size ? counts->table_size * 2 : 256;
    uint32_t* table = (uint32_t*)calloc(size, sizeof(uint32_t));
    if (!table) return nullptr;
    for (uint32_t i = 0; i < counts->count; ++i) {
      const croq_counts& row = counts->spots[i].counts;
      uint32_t at = (row.site * 2654435761u + (uint32_t)row.space * 7 + (uint32_t)row.access) & (size - 1);
      while (table[at]) at = (at + 1) & (size - 1);
      table[at] = i + 1;
    }
    free(counts->table);
    counts->table = table;
    counts->table_size = size;
  }
  uint32_t at = (site * 2654435761u + (uint32_t)space * 7 + (uint32_t)access) & (counts->table_size - 1);
  for (; counts->table[at]; at = (at + 1) & (counts->table_size - 1)) {
    Spot* spot = &counts->spots[counts->table[at] - 1];
    if (spot->counts.site == site && spot->counts.space == space && spot->counts.access == access) return spot;
  }
  if (counts->count == counts->capacity) {
    const uint32_t capacity = counts->capacity * 2 + 64;
    Spot* spots = grow(counts->spots, counts->capacity, capacity);
    if (!spots) return nullptr;
    counts->spots = spots;
    counts->capacity = capacity;
  }
  Spot* spot = &counts->spots[counts->count++];
  counts->table[at] = counts->count;
  spot->counts.site = site;
  spot->counts.space = space;
  spot->counts.access = access;
  return spot;
}

void count_access(croq_thread* self, Block* block, const Region& region, char* address, uint32_t size, int32_t access,
                  uint32_t site) {
  Watch* watch = block->worker->watch;
  if (!watch->counts && !(watch->counts = (Counts*)calloc(1, sizeof(Counts)))) return;
  const int32_t space = region.space == CROQ_SPACE_DYNAMIC ? CROQ_SPACE_SHARED
                        : region.space == CROQ_SPACE_MODULE ? CROQ_SPACE_GLOBAL : region.space;
  Spot* spot = find_spot(watch->counts, site, space, access & (kWrite | kAtomic));
  if (!spot) return;
  ++spot->counts.accesses;
  spot->counts.bytes += size;
  if ((int32_t)size > spot->counts.size) spot->counts.size = (int32_t)size;
  const uint32_t warp = self->linear / 32, lane = self->linear % 32;
  if (warp >= spot->warps) {
    Trace* traces = grow(spot->traces, spot->warps, warp + 1);
    if (!traces) return;
    spot->traces = traces;
    spot->warps = warp + 1;
  }
  Trace& trace = spot->traces[warp];
  const uint32_t at = trace.at[lane];
  if (at >= kMostRequests) return;
  if (at >= trace.capacity) {
    const uint32_t capacity = trace.capacity * 2 + 4;
    Request* requests = (Request*)realloc((void*)trace.requests, sizeof(Request) * capacity);
    if (!requests) return;
    trace.requests = requests;
    trace.capacity = capacity;
  }
  if (at == trace.count) trace.requests[trace.count++].lanes = 0;
  trace.requests[at].lanes |= 1u << lane;
  trace.requests[at].address[lane] = (uint32_t)(uintptr_t)address;
  ++trace.at[lane];
}

// Sectors of 32 bytes that a request touches, and how few its bytes would fill.
void count_sectors(const Request& request, uint32_t size, croq_counts& counts) {
  uint32_t sectors[160], words[32];
  int count = 0, distinct = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (!(request.lanes >> lane & 1)) continue;
    const uint32_t address = request.address[lane];
    for (uint32_t sector = address >> 5; sector <= (address + size - 1) >> 5; ++sector) {
      int i = count - 1;
      while (i >= 0 && sectors[i] != sector) --i;
      if (i < 0 && count < 160) sectors[count++] = sector;
    }
    int i = distinct - 1;
    while (i >= 0 && words[i] != address) --i;
    if (i < 0) words[distinct++] = address;
  }
  counts.parts += count;
  counts.least += ((int64_t)distinct * size + 31) / 32;
}

// Passes over the 32 banks of 4 bytes. Accesses of 8 bytes are made by half a warp at a time, of 16 by a quarter.
void count_passes(const Request& request, uint32_t size, croq_counts& counts) {
  const uint32_t lanes = size <= 4 ? 32 : size <= 8 ? 16 : 8, width = size < 4 ? 1 : (size + 3) / 4;
  for (uint32_t first = 0; first < 32; first += lanes) {
    uint32_t words[32][32], depth[32] = {0}, most = 0;
    for (uint32_t lane = first; lane < first + lanes; ++lane) {
      if (!(request.lanes >> lane & 1)) continue;
      for (uint32_t i = 0; i < width && i < 4; ++i) {
        const uint32_t word = (request.address[lane] >> 2) + i, bank = word % 32;
        uint32_t j = 0;
        while (j < depth[bank] && words[bank][j] != word) ++j;
        if (j == depth[bank] && j < 32) words[bank][depth[bank]++] = word;
        if (depth[bank] > most) most = depth[bank];
      }
    }
    counts.parts += most;
    counts.least += most > 0;
  }
}

// Turns what has been traced since the last barrier into counts.
void settle_counts(Worker* worker) {
  Counts* counts = worker->watch ? worker->watch->counts : nullptr;
  if (!counts) return;
  for (uint32_t i = 0; i < counts->count; ++i) {
    Spot& spot = counts->spots[i];
    for (uint32_t warp = 0; warp < spot.warps; ++warp) {
      Trace& trace = spot.traces[warp];
      if (!trace.count) continue;
      const uint32_t size = (uint32_t)spot.counts.size;
      for (uint32_t at = 0; at < trace.count; ++at) {
        ++spot.counts.requests;
        if (spot.counts.space == CROQ_SPACE_SHARED) count_passes(trace.requests[at], size, spot.counts);
        else count_sectors(trace.requests[at], size, spot.counts);
      }
      trace.count = 0;
      memset(trace.at, 0, sizeof trace.at);
    }
  }
}

void finish_counts(Worker* worker) {
  settle_counts(worker);
  Counts* counts = worker->watch->counts;
  if (!counts) return;
  croq_report* report = worker->launch->report;
  report->counts = grow(report->counts, report->places, report->places + counts->count);
  for (uint32_t i = 0; i < counts->count; ++i) {
    report->counts[report->places++] = counts->spots[i].counts;
    for (uint32_t warp = 0; warp < counts->spots[i].warps; ++warp) free((void*)counts->spots[i].traces[warp].requests);
    free(counts->spots[i].traces);
  }
  free(counts->spots);
  free(counts->table);
  free(counts);
}

}  // namespace

EXPORT void croq_emulate_forget(croq_report* report) {
  free(report->counts);
  report->counts = nullptr;
  report->places = 0;
}

}  // namespace croq_inside
