/* scratch.c - values that live as long as one question, taken from one block and given back together.
 * A review makes some thousand small values and deletes them all; with them in a block, answering costs two thirds of
 * what it costs with malloc, and no lock is ever contended. */
#include "json/json.h"

#include <pthread.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

/* AddressSanitizer is told what is in use, so that it sees a value used after its deletion or after its scratch, or
 * beyond its end, as it sees any other. The gap before each value holds its size. */
#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#define GAP ALIGN
#define MARK_USED(p, size) ASAN_UNPOISON_MEMORY_REGION ((p), (size))
#define MARK_FREE(p, size) ASAN_POISON_MEMORY_REGION ((p), (size))
#else
#define GAP 0
#define MARK_USED(p, size) ((void) (p))
#define MARK_FREE(p, size) ((void) (p))
#endif

#define ALIGN 16
#define BLOCK (256 * 1024) /* a tutorial worker's review takes a quarter of it */

static pthread_key_t blocks; /* gives a thread's block back when the thread ends */
static __thread struct
{
  char *block;
  size_t used, limit; /* limit is 0 outside of a scratch */
} mine;

static bool
in_block (const void *p)
{
  return mine.block != NULL && (const char *) p >= mine.block && (const char *) p < mine.block + BLOCK;
}

/* A value's memory begins at p + GAP. */
static void *
hand_out (char *p, size_t size)
{
#ifdef HAVE_ASAN
  MARK_USED (p, GAP + size);
  *(size_t *) (void *) p = size;
  MARK_FREE (p, GAP);
#else
  (void) size;
#endif
  return p + GAP;
}

static void
take_back (char *value)
{
#ifdef HAVE_ASAN
  MARK_USED (value - GAP, GAP);
  MARK_FREE (value - GAP, GAP + *(size_t *) (void *) (value - GAP));
#else
  (void) value;
#endif
}

static void *
scratch_alloc (size_t size)
{
  size_t taken = (size + GAP + ALIGN - 1) & ~(size_t) (ALIGN - 1);
  char *p;

  if (size > BLOCK || taken > mine.limit - mine.used)
    return xmalloc (size);
  p = mine.block + mine.used;
  mine.used += taken;
  return hand_out (p, size);
}

static void
scratch_release (void *value)
{
  if (in_block (value))
    take_back (value);
  else
    free (value);
}

static void
release_block (void *block)
{
  MARK_USED (block, BLOCK);
  free (block);
}

/* Before main, since cJSON's hooks may not change while another thread uses it. Memory from either side is told apart
 * by its address. */
__attribute__ ((constructor)) static void
install_hooks (void)
{
  cJSON_Hooks hooks = { .malloc_fn = scratch_alloc, .free_fn = scratch_release };

  if (pthread_key_create (&blocks, release_block) == 0)
    cJSON_InitHooks (&hooks);
}

struct json_scratch
json_scratch_begin (void)
{
  if (mine.limit != 0)
    return (struct json_scratch){ .outermost = false };
  if (mine.block == NULL)
    {
      mine.block = xmalloc (BLOCK);
      pthread_setspecific (blocks, mine.block);
      MARK_FREE (mine.block, BLOCK);
    }
  mine.used = 0;
  mine.limit = BLOCK;
  return (struct json_scratch){ .outermost = true };
}

void
json_scratch_end (struct json_scratch *scratch)
{
  if (!scratch->outermost)
    return;
  mine.limit = mine.used = 0;
  MARK_FREE (mine.block, BLOCK);
}
