/* env_megascale.c - several slices that work together over the data centre network (§2.3, §2.5, §5.4). */
#include "tpu/env_internal.h"

#include <inttypes.h>

#define MEGASCALE_PORT 8081 /* 8080 is Ray's metrics port (§2.5) */

/* tpu7x runs several processes per host, hence the ports there; older ones have none (§2.5). */
static void
add_coordinator (struct tpu_decision *d, bool own_port, bool needs_port)
{
  const struct tpu_env_plan *plan = d->plan;
  const char *address = plan->identity->coordinator;
  bool ports = plan->request->accelerator != NULL && plan->request->accelerator->process_family;

  tpu_env_add (d, "MEGASCALE_SLICE_ID", arena_printf (plan->arena, "%" PRId64, plan->identity->replica));
  tpu_env_add (d, "MEGASCALE_COORDINATOR_ADDRESS",
               ports && !own_port ? arena_printf (plan->arena, "%s:%d", address, MEGASCALE_PORT) : address);
  if (!own_port && (ports || needs_port))
    tpu_env_add (d, "MEGASCALE_PORT",
                 arena_printf (plan->arena, "%" PRId64, MEGASCALE_PORT + (ports ? d->container->slot : 0)));
}

bool
tpu_env_slices (const struct tpu_decision *d, int64_t *slices)
{
  const cJSON *entry = tpu_env_find (d->env, "MEGASCALE_NUM_SLICES");
  const char *text = entry ? tpu_env_literal (entry) : NULL;

  *slices = 0;
  return text == NULL || *text == '\0' || text_to_int (text, 1, INT32_MAX, slices) == 0;
}

/* Only where the user says how many slices there are: Ray's trainers set these themselves (§5.4, rule 13). */
static void
add_ray_megascale (struct tpu_decision *d)
{
  const struct tpu_identity *id = d->plan->identity;
  const cJSON *entry = tpu_env_find (d->env, "MEGASCALE_NUM_SLICES");
  const char *slices = entry ? tpu_env_literal (entry) : "";
  int64_t count;

  if ((slices != NULL && *slices == '\0') || !tpu_env_slices (d, &count) || tpu_env_has (d, "MEGASCALE_SLICE_ID")
      || tpu_env_has (d, "MEGASCALE_COORDINATOR_ADDRESS"))
    return;
  if (id->coordinator == NULL || !text_is_dns1123_subdomain (id->coordinator) || (count > 0 && id->replica >= count))
    {
      tpu_warn (d->plan->warnings,
                "MEGASCALE_SLICE_ID is not injected: MEGASCALE_NUM_SLICES is %.32s, and replica index %" PRId64
                " is not one of these: set it to the replicas of the group",
                slices ? slices : "read from elsewhere", id->replica);
      return;
    }
  add_coordinator (d, tpu_env_has (d, "MEGASCALE_PORT"), true);
}

/* A JobSet declares its slices; live ones are never counted (report 21). Any entry of the user's says that the user
 * decides, as Pathways does, whose coordinator is the head (§3.3). Multislice is between multi-host slices, not v3's
 * (§2.3). */
static void
add_jobset_megascale (struct tpu_decision *d)
{
  static const char *const names[]
      = { "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS", "MEGASCALE_PORT" };
  const struct tpu_identity *id = d->plan->identity;
  const struct tpu_accelerator *a = d->plan->request->accelerator;

  for (size_t i = 0; i < ARRAY_LEN (names); i++)
    if (tpu_env_has (d, names[i]))
      return;
  if (id->slices < 2 || id->hosts < 2 || (a != NULL && !a->multislice))
    return;
  if (a == NULL)
    {
      tpu_env_warn_unknown (d->plan, "MEGASCALE_* are");
      return;
    }
  if (id->replica >= id->slices || !text_is_dns1123_subdomain (id->coordinator))
    {
      tpu_warn (d->plan->warnings,
                "MEGASCALE_* are not injected: job-index %" PRId64 " with coordinator %.80s is not one of the %" PRId64
                " slices that the JobSet's labels declare",
                id->replica, id->coordinator, id->slices);
      return;
    }
  tpu_env_add (d, "MEGASCALE_NUM_SLICES", arena_printf (d->plan->arena, "%" PRId64, id->slices));
  add_coordinator (d, false, false);
}

void
tpu_env_megascale (struct tpu_decision *d)
{
  if (d->plan->identity->owner == TPU_OWNER_RAY)
    add_ray_megascale (d);
  else if (d->plan->identity->owner == TPU_OWNER_JOBSET)
    add_jobset_megascale (d);
}
