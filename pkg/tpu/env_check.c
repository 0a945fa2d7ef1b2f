/* env_check.c - entries of the user's: they are final, but some cannot be meant so, and a slice whose hosts wait for
 * each other does not say why. */
#include "tpu/env_internal.h"

#include <inttypes.h>

/* The literal that an entry has, NULL when there is none, it is empty (a decision, §2.3) or cannot be seen. */
static const char *
stated (const struct tpu_decision *d, const char *name)
{
  const cJSON *entry = tpu_env_find (d->env, name);
  const char *text = entry ? tpu_env_literal (entry) : NULL;

  return text != NULL && *text != '\0' ? text : NULL;
}

static void
check_ports (const struct tpu_decision *d)
{
  static const char *const names[] = { "TPU_PROCESS_PORT", "MEGASCALE_PORT" };

  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    {
      const char *text = stated (d, names[i]);
      int64_t port;

      if (text != NULL && text_to_int (text, 1, TPU_PORT_MAX, &port) < 0)
        tpu_warn (d->plan->warnings,
                  "%s of container %.63s is \"%.32s\", no port from 1 to %d: mend it, or remove it to have one chosen",
                  names[i], tpu_env_container_name (d), text, TPU_PORT_MAX);
    }
}

static void
check_slices (const struct tpu_decision *d)
{
  int64_t slices;

  if (!tpu_env_slices (d, &slices))
    tpu_warn (
        d->plan->warnings,
        "MEGASCALE_NUM_SLICES of container %.63s is \"%.32s\", no number of slices: write 1 or more, or remove it",
        tpu_env_container_name (d), stated (d, "MEGASCALE_NUM_SLICES"));
}

/* In a LeaderWorkerSet's pods its own webhook writes it, and counts as it likes; but some of its versions count leaders
 * of subgroups of one as -1 (§1.2). */
static void
check_set_id (const struct tpu_decision *d, const char *text)
{
  const struct tpu_identity *id = d->plan->identity;
  int64_t own, last = id->hosts * id->processes - 1;

  if (text_to_int (text, 0, last, &own) < 0)
    tpu_warn (d->plan->warnings,
              "TPU_WORKER_ID of container %.63s is \"%.32s\", which is no index from 0 to %" PRId64
              ": LeaderWorkerSet before 0.10 writes such for subgroups of one Pod, upgrade it; or remove your entry",
              tpu_env_container_name (d), text, last);
}

/* A template's literal is the same on every host. */
static void
check_worker_id (const struct tpu_decision *d)
{
  const struct tpu_identity *id = d->plan->identity;
  const char *text = stated (d, "TPU_WORKER_ID");
  int64_t own;

  if (text != NULL && id->owner == TPU_OWNER_LWS)
    {
      check_set_id (d, text);
      return;
    }
  if (text == NULL || id->hosts < 2 || (text_to_int (text, 0, INT64_MAX, &own) == 0 && own == tpu_env_own_id (d)))
    return;
  tpu_warn (d->plan->warnings,
            "container %.63s keeps its own TPU_WORKER_ID \"%.32s\", which is not its index in the slice: remove it",
            tpu_env_container_name (d), text);
}

void
tpu_env_check (const struct tpu_decision *d, bool place)
{
  check_ports (d);
  check_slices (d);
  if (place)
    check_worker_id (d);
}
