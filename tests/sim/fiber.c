/* fiber.c - coroutines on ucontext, known to the sanitizers. */
#include <ucontext.h>

#include "sim.h"

#if defined __has_feature
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#define ASAN_LEAVE(save, stack, size) __sanitizer_start_switch_fiber (save, stack, size)
#define ASAN_ENTER(save, stack, size) __sanitizer_finish_switch_fiber (save, stack, size)
#else
#define ASAN_LEAVE(save, stack, size) ((void) 0)
#define ASAN_ENTER(save, stack, size) ((void) 0)
#endif
#if defined __SANITIZE_THREAD__ || defined WITH_TSAN
#include <sanitizer/tsan_interface.h>
#define TSAN_NEW() __tsan_create_fiber (0)
#define TSAN_SELF() __tsan_get_current_fiber ()
#define TSAN_SWITCH(fiber) __tsan_switch_to_fiber (fiber, 0)
#define TSAN_END(fiber) __tsan_destroy_fiber (fiber)
#else
#define TSAN_NEW() NULL
#define TSAN_SELF() NULL
#define TSAN_SWITCH(fiber) ((void) 0)
#define TSAN_END(fiber) ((void) 0)
#endif

/* As deep as a worker's thread (pkg/controller), with room for a sanitizer's larger frames. */
#define STACK_SIZE (1024 * 1024)

struct fiber
{
  ucontext_t here, back;
  void (*run) (void *data);
  void *data, *stack;
  void *tsan, *tsan_back;
  const void *back_stack; /* of the main program, as ASan knows it */
  size_t back_size;
  bool ended;
  struct fiber *next; /* in the pool */
};

static struct fiber *current;
static struct fiber *pool; /* those that ended: their stacks are used again */

static void
enter (void)
{
  struct fiber *self = current;

  ASAN_ENTER (NULL, &self->back_stack, &self->back_size);
  self->run (self->data);
  self->ended = true;
  ASAN_LEAVE (NULL, self->back_stack, self->back_size);
  TSAN_SWITCH (self->tsan_back);
  swapcontext (&self->here, &self->back);
}

void
fiber_resume (struct fiber *fiber)
{
  void *fake __attribute__ ((unused)) = NULL;

  current = fiber;
  fiber->tsan_back = TSAN_SELF ();
  ASAN_LEAVE (&fake, fiber->stack, STACK_SIZE);
  TSAN_SWITCH (fiber->tsan);
  swapcontext (&fiber->back, &fiber->here);
  ASAN_ENTER (fake, NULL, NULL);
  current = NULL;
}

void
fiber_wait (void)
{
  struct fiber *self = current;
  void *fake __attribute__ ((unused)) = NULL;

  ASAN_LEAVE (&fake, self->back_stack, self->back_size);
  TSAN_SWITCH (self->tsan_back);
  swapcontext (&self->here, &self->back);
  ASAN_ENTER (fake, &self->back_stack, &self->back_size);
}

static void
set_up (struct fiber *fiber)
{
  getcontext (&fiber->here);
  fiber->here.uc_stack.ss_sp = fiber->stack;
  fiber->here.uc_stack.ss_size = STACK_SIZE;
  fiber->here.uc_link = NULL;
  makecontext (&fiber->here, enter, 0);
}

static struct fiber *
take (void)
{
  struct fiber *fiber = pool;

  if (fiber != NULL)
    {
      pool = fiber->next;
      return fiber;
    }
  fiber = xcalloc (1, sizeof (*fiber));
  fiber->stack = xmalloc (STACK_SIZE);
  return fiber;
}

struct fiber *
fiber_start (void (*run) (void *data), void *data)
{
  struct fiber *fiber = take ();

  fiber->run = run;
  fiber->data = data;
  fiber->ended = false;
  fiber->tsan = TSAN_NEW ();
  set_up (fiber);
  fiber_resume (fiber);
  return fiber;
}

bool
fiber_ended (const struct fiber *fiber)
{
  return fiber->ended;
}

void
fiber_free (struct fiber *fiber)
{
  TSAN_END (fiber->tsan);
  fiber->next = pool;
  pool = fiber;
}
