/* trim.h - gives memory back that a burst of work needed and rest does not: resident size is what users are billed for
 * (design §3.5). */
#ifndef MANAGER_TRIM_H
#define MANAGER_TRIM_H

/* Zero before the first call. */
struct trim
{
  double cpu_seconds;
  int busy_ticks;
};

/* To be called every second or so. Gives memory back once the work that needed it is over; under load that never ends,
 * now and then. */
void trim_tick (struct trim *trim);

/* At once. Any thread; the others run on undisturbed. */
void trim_now (void);

#endif
