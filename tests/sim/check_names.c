/* check_names.c - names: a pod that is whole by itself (a head, a single-host worker) and went, does not come back
 * under its name, as far as its operator could know that it ever was there. Hosts of a slice that was never complete
 * do. */
#include <stdio.h>
#include <string.h>

#include "check.h"

/* How long a name must not come back: the controller keeps it for 300 s. */
#define SPENT_MS 240000

void
check_known (const struct operator* op, const struct revision *pod)
{
  const char *uid = json_str (pod->json, "metadata", "uid");

  for (size_t i = 0; i < sim->nknown; i++)
    if (sim->known[i].operator_number == op->number && strcmp (sim->known[i].uid, uid) == 0)
      return;
  sim->known = xgrow (sim->known, sim->nknown, &sim->known_cap, sizeof (*sim->known));
  sim->known[sim->nknown] = (struct known_pod){ .operator_number = op->number, .step = sim->steps };
  snprintf (sim->known[sim->nknown++].uid, sizeof (sim->known->uid), "%s", uid);
}

static bool
was_known (const struct call *call, const char *uid)
{
  for (size_t i = 0; i < sim->nknown; i++)
    if (sim->known[i].operator_number == call->op->number && strcmp (sim->known[i].uid, uid) == 0)
      return sim->known[i].step < call->pass_began;
  return false;
}

static bool
is_earlier_life (const struct change *change, const struct ray_pod *p)
{
  return change->kind == KIND_POD && change->after == NULL && change->before->pod != NULL
         && strcmp (change->before->pod->name, p->name) == 0
         && strcmp (change->before->pod->owner_uid, p->owner_uid) == 0;
}

void
check_name (const struct call *call, const struct ray_pod *p)
{
  if (call->op == NULL || p->replica_name[0] != '\0')
    return;
  for (size_t i = sim->nlog; i-- > 0 && sim->log[i].ms + SPENT_MS > sim->now_ms;)
    if (is_earlier_life (&sim->log[i], p) && was_known (call, sim->log[i].before->pod->uid))
      sim_fail ("a pod comes back under the name of one that went: %s", p->name);
}
