// A stand-in for libsmctrl: its functions, with what can go wrong chosen when it is compiled.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef OFFSET
#define OFFSET 0x4ec
#endif

struct mask { uint32_t enabled; uint32_t words[4]; };

static void set(void *stream, uint64_t low, uint64_t high) {
#if defined(EXITS)
  exit(1);
#elif defined(CRASHES)
  abort();
#elif defined(HANGS)
  for (;;) pause();
#elif !defined(WRITES_NOTHING)
  struct mask mask = {1, {(uint32_t)low, low >> 32, (uint32_t)high, high >> 32}};
  memcpy(*(char **)stream + OFFSET, &mask, sizeof mask);
#endif
}

void libsmctrl_set_stream_mask(void *stream, uint64_t mask) { set(stream, mask, UINT64_MAX); }

#ifndef OLD
void libsmctrl_set_stream_mask_ext(void *stream, unsigned __int128 mask) {
  set(stream, (uint64_t)mask, (uint64_t)(mask >> 64));
}
#endif

int libsmctrl_get_tpc_info_cuda(uint32_t *tpcs, int device) {
  if (device != 0) return 19; /* ENODEV */
  *tpcs = 8;
  return 0;
}
