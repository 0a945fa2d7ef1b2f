/* env_hosts.c - TPU_WORKER_HOSTNAMES and TPU_WORKER_ID: who the hosts of the slice are, and which one this is. */
#include "tpu/env_internal.h"

#include <inttypes.h>

static void
warn_too_long (struct tpu_env_plan *plan, const char *name)
{
  tpu_warn (plan->warnings,
            "%s is not injected: for %" PRId64 " hosts it is longer than the 128 KiB that Linux allows a variable",
            name, plan->identity->hosts);
}

/* Joins hosts with suffixes; the slice's own hosts only once. NULL with a warning when that is too long. */
const char *
tpu_env_join (struct tpu_env_plan *plan, struct tpu_once *once, const struct tpu_hosts *hosts,
              const struct tpu_word *suffixes, int64_t nsuffixes, const char *name)
{
  const char *value;

  if (hosts == &plan->hosts && once->made)
    return once->value;
  value = suffixes ? tpu_hosts_join (hosts, suffixes, (size_t) nsuffixes, name, plan->arena) : NULL;
  if (value == NULL)
    warn_too_long (plan, name);
  if (hosts == &plan->hosts)
    *once = (struct tpu_once){ .made = true, .value = value };
  return value;
}

/* The lists that every container shares; TPU_WORKER_HOSTNAMES names a host once for each of its processes (rule 12). */
void
tpu_env_name_hosts (struct tpu_env_plan *plan)
{
  int64_t processes = plan->identity->processes;
  struct tpu_word *repeat = arena_alloc (plan->arena, (size_t) processes * sizeof (*repeat));

  for (int64_t i = 0; i < processes; i++)
    repeat[i] = (struct tpu_word){ .text = "" };
  tpu_hosts_name (&plan->hosts, plan->identity, plan->arena);
  tpu_env_join (plan, &plan->hostnames, &plan->hosts, repeat, processes, "TPU_WORKER_HOSTNAMES");
}

/* What the pod's first TPU container has as TPU_WORKER_HOSTNAMES; NULL when absent or hidden. */
static const char *
first_hostnames (const struct tpu_env_plan *plan)
{
  const cJSON *entry = tpu_env_find (json_get (plan->containers->items[0].object, "env"), "TPU_WORKER_HOSTNAMES");

  return entry ? tpu_env_literal (entry) : NULL;
}

static bool
has_hosts (const cJSON *env)
{
  return tpu_env_find (env, "TPU_WORKER_HOSTNAMES") != NULL || tpu_env_find (env, "TPU_WORKER_ID") != NULL;
}

/* A LeaderWorkerSet's webhook takes the first container for all (§1.1 rule 10). */
bool
tpu_env_wants_hosts (const struct tpu_decision *d)
{
  const struct tpu_env_plan *plan = d->plan;

  if (plan->hostnames.value == NULL || has_hosts (d->env))
    return false;
  return plan->identity->owner != TPU_OWNER_LWS || d->container == plan->containers->items
         || text_eq (first_hostnames (plan), plan->hostnames.value)
         || !has_hosts (json_get (plan->containers->items[0].object, "env"));
}

void
tpu_env_hostnames (struct tpu_decision *d)
{
  if (tpu_env_wants_hosts (d))
    tpu_env_add (d, "TPU_WORKER_HOSTNAMES", d->plan->hostnames.value);
}

/* Several containers are several workers (rule 12, reports 17 and 33). */
int64_t
tpu_env_own_id (const struct tpu_decision *d)
{
  const struct tpu_identity *id = d->plan->identity;

  return id->host * id->processes + d->container->slot;
}

void
tpu_env_worker_id (struct tpu_decision *d)
{
  if (tpu_env_wants_hosts (d))
    tpu_env_add (d, "TPU_WORKER_ID", arena_printf (d->plan->arena, "%" PRId64, tpu_env_own_id (d)));
}
