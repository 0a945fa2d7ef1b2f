/* env.c - what each container is told (§6.2, §8.2): decided as plain entries first, then written as a patch. */
#include "tpu/env_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- the user's entries ---- */

/* The last one counts, as it does for the kubelet. */
const cJSON *
tpu_env_find (const cJSON *env, const char *name)
{
  const cJSON *entry, *found = NULL;

  if (cJSON_IsArray (env))
    cJSON_ArrayForEach (entry, env)
      if (text_eq (json_str (entry, "name"), name))
        found = entry;
  return found;
}

bool
tpu_env_has (const struct tpu_decision *d, const char *name)
{
  return tpu_env_find (d->env, name) != NULL;
}

/* What the entry says, "" when it says nothing, NULL when it cannot be seen from here. */
const char *
tpu_env_literal (const cJSON *entry)
{
  const cJSON *from = json_get (entry, "valueFrom");

  const char *value = log_nonnull (json_str (entry, "value"));

  return (from != NULL && !cJSON_IsNull (from)) || strstr (value, "$(") != NULL ? NULL : value;
}

bool
tpu_env_literal_port (const cJSON *entry, int64_t *port)
{
  const char *text = tpu_env_literal (entry);

  return text != NULL && text_to_int (text, 1, TPU_PORT_MAX, port) == 0;
}

/* References to those that can be asked for here. */
static cJSON *
known_entries (const cJSON *env)
{
  static const char *const prefixes[] = { "TPU_", "TORCH_TPU_", "MEGASCALE_" };
  cJSON *known = cJSON_CreateArray (), *entry;

  if (cJSON_IsArray (env))
    cJSON_ArrayForEach (entry, env)
      for (size_t i = 0; i < ARRAY_LEN (prefixes); i++)
        if (text_starts_with (log_nonnull (json_str (entry, "name")), prefixes[i]))
          cJSON_AddItemReferenceToArray (known, entry);
  return known;
}

/* ---- building blocks ---- */

void
tpu_env_add (struct tpu_decision *d, const char *name, const char *value)
{
  d->entries[d->count++] = (struct tpu_entry){ .name = name, .value = value };
}

const char *
tpu_env_container_name (const struct tpu_decision *d)
{
  return log_nonnull (json_str (d->container->object, "name"));
}

void
tpu_env_warn_unknown (const struct tpu_env_plan *plan, const char *what)
{
  const struct tpu_request *r = plan->request;

  if (r->accelerator_text == NULL)
    tpu_warn (plan->warnings, "%s not injected: the Pod names no accelerator: add %s to spec.nodeSelector", what,
              r->accelerator_label);
  else
    tpu_warn (plan->warnings, "%s not injected: %s \"%.63s\" is not known here; `raytpu topology` lists what is", what,
              r->accelerator_label, r->accelerator_text);
}

/* ---- variables that need no list ---- */

static void
add_name (struct tpu_decision *d)
{
  if (*d->plan->identity->slice && !tpu_env_has (d, "TPU_NAME"))
    tpu_env_add (d, "TPU_NAME", d->plan->identity->slice);
}

/* Where Ray reads the node's TPU metrics (§2.4, §5.4). The address refers to the entry before it. */
static void
add_device_plugin (struct tpu_decision *d)
{
  if (d->plan->identity->owner != TPU_OWNER_RAY || tpu_env_has (d, "TPU_DEVICE_PLUGIN_ADDR"))
    return;
  if (!tpu_env_has (d, "TPU_DEVICE_PLUGIN_HOST_IP"))
    d->entries[d->count++] = (struct tpu_entry){ .name = "TPU_DEVICE_PLUGIN_HOST_IP", .field = "status.hostIP" };
  tpu_env_add (d, "TPU_DEVICE_PLUGIN_ADDR", "$(TPU_DEVICE_PLUGIN_HOST_IP):2112");
}

/* The order of the KubeRay TPU webhook (§5.4). */
static const struct
{
  void (*decide) (struct tpu_decision *d);
  bool needs_identity;
} variables[] = {
  { tpu_env_megascale, true }, { tpu_env_hostnames, true }, { tpu_env_processes, true },  { tpu_env_torch, true },
  { tpu_env_worker_id, true }, { add_name, true },          { add_device_plugin, false },
};

/* ---- writing ---- */

static cJSON *
entry_json (const struct tpu_entry *e)
{
  cJSON *object = cJSON_CreateObject ();

  json_set_str (object, "name", e->name);
  if (e->field != NULL)
    json_set_str (json_obj (json_obj (object, "valueFrom"), "fieldRef"), "fieldPath", e->field);
  else
    json_set_str (object, "value", e->value);
  return object;
}

/* Appends to the env there is, or makes it (rule 10): no operation depends on an index into env. */
static void
write_entries (cJSON *patch, const struct tpu_decision *d)
{
  const char *section = d->container->section;
  char index[16];
  cJSON *array;

  snprintf (index, sizeof (index), "%d", d->container->index);
  if (d->count > 0 && !cJSON_IsArray (json_get (d->container->object, "env")))
    {
      array = cJSON_CreateArray ();
      for (size_t i = 0; i < d->count; i++)
        json_push (array, entry_json (&d->entries[i]));
      json_patch_op (patch, "add", array, "spec", section, index, "env");
    }
  else
    for (size_t i = 0; i < d->count; i++)
      json_patch_op (patch, "add", entry_json (&d->entries[i]), "spec", section, index, "env", "-");
}

/* Of a subgroup's pod only the first container has a place in the slice (§1.2). */
static bool
has_place (const struct tpu_decision *d)
{
  const struct tpu_identity *id = d->plan->identity;

  if (id->unknown != NULL)
    return false;
  if (id->processes >= d->plan->request->containers || d->container == d->plan->containers->items)
    return true;
  tpu_warn (d->plan->warnings,
            "container %.63s is not told its place: in subgroups only the first TPU container of a Pod has one",
            tpu_env_container_name (d));
  return false;
}

static void
decide (struct tpu_decision *d)
{
  bool place = has_place (d);

  d->env = known_entries (json_get (d->container->object, "env"));
  tpu_env_check (d, place);
  for (size_t i = 0; i < ARRAY_LEN (variables); i++)
    if (place || !variables[i].needs_identity)
      variables[i].decide (d);
}

static size_t
size_of (const struct tpu_decision *d)
{
  size_t size = 0;

  for (size_t i = 0; i < d->count; i++)
    size += strlen (d->entries[i].name) + strlen (log_nonnull (d->entries[i].value));
  return size;
}

void
tpu_env_patch (cJSON *patch, cJSON *warnings, const struct tpu_containers *containers, const struct tpu_request *r,
               const struct tpu_identity *id, struct arena *arena)
{
  struct tpu_env_plan plan
      = { .request = r, .identity = id, .containers = containers, .arena = arena, .warnings = warnings };
  struct tpu_decision *decisions = arena_alloc (arena, containers->count * sizeof (*decisions));
  size_t size = 0;

  if (id->unknown == NULL)
    tpu_env_name_hosts (&plan);
  for (size_t c = 0; c < containers->count; c++)
    {
      decisions[c] = (struct tpu_decision){ .plan = &plan, .container = &containers->items[c] };
      decide (&decisions[c]);
      size += size_of (&decisions[c]);
    }
  if (size > TPU_ENV_TOTAL_MAX)
    tpu_warn (warnings,
              "the TPU environment is not injected: for the %zu TPU containers of the Pod and %" PRId64
              " hosts it is longer than 1 MiB, and the Pod could not be stored: let fewer containers ask for TPUs",
              containers->count, id->hosts);
  for (size_t c = 0; c < containers->count; c++)
    {
      if (size <= TPU_ENV_TOTAL_MAX)
        write_entries (patch, &decisions[c]);
      cJSON_Delete (decisions[c].env);
    }
}
