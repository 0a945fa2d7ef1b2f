#include "manager/trim.h"

#include <link.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "manager/manager_internal.h"

/* A second that takes more than this is part of a burst; looking at ourselves takes a few milliseconds. */
#define BUSY_CPU_SECONDS 0.02
#define BUSY_TICKS_MAX 60

/* Whether the loader wrote into this object's code, so that its pages are not the file's any more. */
static bool
is_text_relocated (const struct dl_phdr_info *info)
{
  for (int i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW (Dyn) *dynamic = (const void *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);

      if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
        continue;
      for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_TEXTREL || (dynamic->d_tag == DT_FLAGS && (dynamic->d_un.d_val & DF_TEXTREL)))
          return true;
    }
  return false;
}

/* Unmaps the pages of code and constants of one program or library: those that are still used come back from the page
 * cache at their next use, those that only the start needed (most of the 30 libraries' pages, mapped 16 at a time) do
 * not. */
static int
drop_code (struct dl_phdr_info *info, size_t size, void *data)
{
  uintptr_t page = (uintptr_t) sysconf (_SC_PAGESIZE);
  bool is_file = info->dlpi_name[0] == '\0' || strchr (info->dlpi_name, '/') != NULL; /* not the kernel's own */

  (void) size;
  (void) data;
  if (!is_file || is_text_relocated (info))
    return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW (Phdr) *segment = &info->dlpi_phdr[i];
      uintptr_t begin = (info->dlpi_addr + segment->p_vaddr) & ~(page - 1);
      uintptr_t end = (info->dlpi_addr + segment->p_vaddr + segment->p_memsz + page - 1) & ~(page - 1);

      if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W))
        madvise ((void *) begin, end - begin, MADV_DONTNEED); /* a failure only costs memory */
    }
  return 0;
}

void
trim_now (void)
{
  malloc_trim (0);
  dl_iterate_phdr (drop_code, NULL);
}

void
trim_tick (struct trim *trim)
{
  struct metrics_view view = { 0 };
  bool busy;

  metrics_read_process (&view);
  busy = view.cpu_seconds - trim->cpu_seconds > BUSY_CPU_SECONDS;
  trim->cpu_seconds = view.cpu_seconds;
  if (busy && ++trim->busy_ticks < BUSY_TICKS_MAX)
    return;
  if (trim->busy_ticks > 0)
    trim_now ();
  trim->busy_ticks = 0;
}
