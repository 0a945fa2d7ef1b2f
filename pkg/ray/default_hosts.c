#include "ray/default_hosts.h"
#include "ray/ray_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define KEY "numOfHosts"

/* 0 is what some clients send for "not set" (§1.2). */
static bool
leaves_it_out (const cJSON *group)
{
  const cJSON *stated = json_get (group, KEY);

  return stated == NULL || cJSON_IsNull (stated)
         || (json_is_whole (stated) && (stated->valuedouble == 0 || stated->valuedouble == 1));
}

/* Whether the topology alone says how many pods a replica has: each takes one whole VM of a multi-host slice. Of
 * generations not known here the VMs are not known either. One that is not there is a slip of the pen, and its number
 * would be one too. */
static bool
topology_decides (const struct tpu_request *r)
{
  struct tpu_topology instead;

  return tpu_request_offered (r, &instead) && r->hosts > 1 && r->hosts <= RAY_GROUP_PODS_MAX
         && (r->accelerator == NULL || r->chips == TPU_SLICE_VM_CHIPS);
}

/* What was stored under this name before, or NULL. */
static const cJSON *
old_group (const cJSON *old_groups, const cJSON *group)
{
  const char *name = json_str (group, "groupName");

  return ray_is_list (old_groups) && name != NULL ? json_find (old_groups, "groupName", name) : NULL;
}

static void
set_hosts (struct ray_defaults *out, const struct ray_holder *holder, int index, const struct tpu_request *r)
{
  const char *tokens[8] = { "spec" };
  char at[16], slice[RAY_SLICE_TEXT_SIZE];
  cleanup_free char *warning = NULL;
  size_t n = 1;

  snprintf (at, sizeof (at), "%d", index);
  if (holder->spec_key != NULL)
    tokens[n++] = holder->spec_key;
  tokens[n++] = "workerGroupSpecs";
  tokens[n++] = at;
  tokens[n++] = KEY;
  json_patch_op_ (out->patch, "add", cJSON_CreateNumber ((double) r->hosts), tokens);
  ray_slice_text (slice, r);
  warning = xasprintf ("%s.workerGroupSpecs[%d]." KEY ": set to %" PRId64 ", because %s; write it into the manifest",
                       holder->spec_path, index, r->hosts, slice);
  json_push_str (out->warnings, warning);
}

static void
default_group (struct ray_defaults *out, const struct ray_holder *holder, int index, const cJSON *group,
               const cJSON *old_groups, const struct ray_options *options)
{
  struct tpu_request r;
  const cJSON *old;

  if (!cJSON_IsObject (group) || !leaves_it_out (group)
      || tpu_request_read (&r, json_get (group, "template"), &options->tpu, NULL) < 0 || !topology_decides (&r))
    return;
  old = old_group (old_groups, group);
  if (old == NULL || json_int (old, 1, KEY) == r.hosts)
    set_hosts (out, holder, index, &r);
}

void
ray_default_hosts (struct ray_defaults *out, const struct ray_holder *holder, const cJSON *object, const cJSON *old,
                   const struct ray_options *options)
{
  const cJSON *groups = json_get (ray_holder_spec (holder, object), "workerGroupSpecs"), *group;
  const cJSON *old_groups = json_get (ray_holder_spec (holder, old), "workerGroupSpecs");
  int index = 0;

  *out = (struct ray_defaults){ .patch = cJSON_CreateArray (), .warnings = cJSON_CreateArray () };
  if (!ray_is_list (groups) || json_str (object, "metadata", "deletionTimestamp") != NULL
      || ray_holder_managed_elsewhere (holder, object))
    return;
  cJSON_ArrayForEach (group, groups)
    default_group (out, holder, index++, group, old_groups, options);
}

void
ray_defaults_free (struct ray_defaults *defaults)
{
  cJSON_Delete (defaults->patch);
  cJSON_Delete (defaults->warnings);
  *defaults = (struct ray_defaults){ 0 };
}
