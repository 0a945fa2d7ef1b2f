/* Histories by the thousand, and the proof that a mistake would have been noticed.
 *
 *   SIM_HISTORIES=N  how many (10000; fewer under a sanitizer)       SIM_FIRST=N  the first seed (1)
 *   SIM_SECONDS=N    for how long, once the least number is played (200), and fewer than asked for are no failure then
 *   SIM_SEED=N       plays that one alone, with a trace on stderr    SIM_MUTATION=N  with that mistake in it
 *   SIM_TEST=GLOB    only the tests of that name */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim.h"

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define HISTORIES 500
#define HISTORIES_MIN 250
#else
#define HISTORIES 10000
#define HISTORIES_MIN 5000
#endif
/* Who cannot play them all in this time says so, having played the least number however long that takes. It is a
 * failure when the cores were ours for at least BUSY_PERCENT of the time: then the histories have become too slow. A
 * machine that is busy with something else is none. */
#define SECONDS 200
#define BUSY_PERCENT 80
#define FAILURES_SHOWN 5 /* by each process */
#define PROCESSES_MAX 8
/* Every mistake must show within so many; all do within a few hundred. */
#define HISTORIES_PER_MUTATION 1000

static uint64_t
setting (const char *name, uint64_t fallback)
{
  const char *text = getenv (name);

  return text != NULL && text[0] != '\0' ? strtoull (text, NULL, 10) : fallback;
}

/* What playing took; cpu_ms is that of all processes together. */
struct effort
{
  int64_t wall_ms, cpu_ms;
  uint64_t processes;
};

static bool
had_the_cores (const struct effort *effort)
{
  return effort->cpu_ms * 100 >= effort->wall_ms * (int64_t) effort->processes * BUSY_PERCENT;
}

static void
test_only_a_busy_machine_excuses (void **state)
{
  (void) state;
  assert_true (had_the_cores (&(struct effort){ .wall_ms = 200000, .cpu_ms = 390000, .processes = 2 }));
  assert_true (had_the_cores (&(struct effort){ .wall_ms = 200000, .cpu_ms = 199000, .processes = 1 }));
  assert_false (had_the_cores (&(struct effort){ .wall_ms = 200000, .cpu_ms = 199000, .processes = 2 }));
  assert_false (had_the_cores (&(struct effort){ .wall_ms = 200000, .cpu_ms = 300000, .processes = 2 }));
}

/* Real time: clock_mono_ms is the simulation's. */
static int64_t
real_ms (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t
cpu_ms_of_children (void)
{
  struct rusage use;

  getrusage (RUSAGE_CHILDREN, &use);
  return ((int64_t) use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000
         + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000;
}

struct tally
{
  uint64_t histories, steps, passes, writes, failures;
};

static uint64_t
count_processes (void)
{
  long cores = sysconf (_SC_NPROCESSORS_ONLN);

  return cores < 1 ? 1 : cores > PROCESSES_MAX ? PROCESSES_MAX : (uint64_t) cores;
}

/* Plays every processes-th history of the range. */
static struct tally
play_share (uint64_t first, uint64_t count, uint64_t share, uint64_t processes)
{
  time_t end = time (NULL) + (time_t) setting ("SIM_SECONDS", SECONDS);
  struct tally t = { 0 };

  for (uint64_t i = share; i < count && t.failures < FAILURES_SHOWN; i += processes)
    {
      struct sim_result result;

      if (i >= HISTORIES_MIN && time (NULL) >= end)
        break;
      sim_run (first + i, 0, false, &result);
      t.histories++;
      t.steps += result.steps;
      t.passes += result.passes;
      t.writes += result.writes;
      if (result.failure[0] == '\0')
        continue;
      t.failures++;
      fprintf (stderr, "seed %" PRIu64 ": %s\n  replay: SIM_SEED=%" PRIu64 " build/tests/sim/test_sim\n", first + i,
               result.failure, first + i);
    }
  return t;
}

/* One history needs one thread; thousands of them may as well have all cores. Returns the end to read from. */
static int
start_share (uint64_t first, uint64_t count, uint64_t share, uint64_t processes, pid_t *pid)
{
  struct tally t;
  int ends[2];

  assert_int_equal (pipe (ends), 0);
  *pid = fork ();
  assert_true (*pid >= 0);
  if (*pid == 0)
    {
      t = play_share (first, count, share, processes);
      _exit (write (ends[1], &t, sizeof (t)) == sizeof (t) ? 0 : 1);
    }
  close (ends[1]);
  return ends[0];
}

static void
test_histories_keep_every_promise (void **state)
{
  uint64_t first = setting ("SIM_FIRST", 1), count = setting ("SIM_HISTORIES", HISTORIES);
  struct effort effort = { .processes = count_processes (), .wall_ms = -real_ms (), .cpu_ms = -cpu_ms_of_children () };
  struct tally sum = { 0 };
  int ends[PROCESSES_MAX];
  pid_t pids[PROCESSES_MAX];

  (void) state;
  for (uint64_t i = 0; i < effort.processes; i++)
    ends[i] = start_share (first, count, i, effort.processes, &pids[i]);
  for (size_t i = 0; i < effort.processes; i++)
    {
      struct tally t = { 0 };
      int status = -1;

      if (read (ends[i], &t, sizeof (t)) != sizeof (t))
        sum.failures++; /* it crashed: its last words are on stderr */
      close (ends[i]);
      assert_int_equal (waitpid (pids[i], &status, 0), pids[i]);
      sum.histories += t.histories;
      sum.steps += t.steps;
      sum.passes += t.passes;
      sum.writes += t.writes;
      sum.failures += t.failures + (status != 0);
    }
  effort.wall_ms += real_ms ();
  effort.cpu_ms += cpu_ms_of_children ();
  print_message ("%" PRIu64 " histories (of seeds %" PRIu64 "-%" PRIu64 "): %" PRIu64 " steps, %" PRIu64
                 " passes, %" PRIu64 " writes\n",
                 sum.histories, first, first + count - 1, sum.steps, sum.passes, sum.writes);
  assert_int_equal (sum.failures, 0);
  assert_true (sum.histories >= (count < HISTORIES_MIN ? count : HISTORIES_MIN));
  if (sum.histories == count)
    return;
  print_message ("SHORT OF TIME: %" PRIu64 " of %" PRIu64 " histories were played, in %" PRId64 " s with %" PRIu64
                 " processes and %" PRId64 " s of CPU time (SIM_SECONDS=N gives more time)\n",
                 sum.histories, count, effort.wall_ms / 1000, effort.processes, effort.cpu_ms / 1000);
  if (getenv ("SIM_SECONDS") == NULL && had_the_cores (&effort))
    fail_msg ("a history takes %" PRId64 " ms of CPU time: the machine was not busy with anything else, they have "
              "become too slow",
              effort.cpu_ms / (int64_t) sum.histories);
}

static void
test_a_seed_is_a_history (void **state)
{
  (void) state;
  for (uint64_t seed = 1; seed <= 20; seed++)
    {
      struct sim_result once, again;

      sim_run (seed, 0, false, &once);
      sim_run (seed, 0, false, &again);
      assert_int_equal (once.steps, again.steps);
      assert_int_equal (once.passes, again.passes);
      assert_int_equal (once.writes, again.writes);
      assert_string_equal (once.failure, again.failure);
    }
}

/* `words` are alternatives, parted by |. */
static bool
says (const char *failure, const char *words)
{
  char copy[256], *rest = copy, *word;

  snprintf (copy, sizeof (copy), "%s", words);
  while ((word = strsep (&rest, "|")) != NULL)
    if (strstr (failure, word) != NULL)
      return true;
  return false;
}

static void
test_every_mistake_is_caught (void **state)
{
  int missed = 0;

  (void) state;
  for (size_t m = 1; m < sim_nmutations; m++)
    {
      struct sim_result result = { 0 };
      uint64_t seed = 0;

      do
        sim_run (++seed, (int) m, false, &result);
      while (!says (result.failure, sim_mutations[m].caught_by) && seed < HISTORIES_PER_MUTATION);
      if (says (result.failure, sim_mutations[m].caught_by))
        print_message ("%-44s seed %3" PRIu64 ": %s\n", sim_mutations[m].name, seed, result.failure);
      else
        {
          missed++;
          print_message ("%-44s NOT CAUGHT in %d histories\n", sim_mutations[m].name, HISTORIES_PER_MUTATION);
        }
    }
  assert_int_equal (missed, 0);
}

static int
replay (uint64_t seed)
{
  struct sim_result result;

  log_configure (LOG_INFO, LOG_TEXT);
  sim_run (seed, (int) setting ("SIM_MUTATION", 0), true, &result);
  printf ("seed %" PRIu64 ": %" PRIu64 " steps, %" PRIu64 " passes, %" PRIu64 " writes: %s\n", seed, result.steps,
          result.passes, result.writes, result.failure[0] ? result.failure : "all well");
  return result.failure[0] != '\0';
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_only_a_busy_machine_excuses),
    cmocka_unit_test (test_histories_keep_every_promise),
    cmocka_unit_test (test_a_seed_is_a_history),
    cmocka_unit_test (test_every_mistake_is_caught),
  };

  if (getenv ("SIM_SEED") != NULL)
    return replay (setting ("SIM_SEED", 1));
  log_configure (LOG_ERROR, LOG_TEXT);
  cmocka_set_test_filter (getenv ("SIM_TEST"));
  return cmocka_run_group_tests (tests, NULL, NULL);
}
