/* placement.c - where Ray pods of a multi-host slice run and how they are found: hostname, subdomain, slice affinity.
 */
#include "tpu/tpu_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define TOPOLOGY_KEY "cloud.google.com/gke-nodepool" /* one pool is one slice: the hosts that share an interconnect */
#define TOPOLOGY_KEY_PREFIX "cloud.google.com/"
#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"

static void
set_when_absent (cJSON *patch, const cJSON *pod, const char *field, const char *value)
{
  const char *own = json_str (pod, "spec", field);

  if (own == NULL || *own == '\0')
    json_patch_op (patch, "add", cJSON_CreateString (value), "spec", field);
}

static bool
is_absent (const cJSON *v)
{
  return v == NULL || cJSON_IsNull (v);
}

/* ---- terms ---- */

static void
add_expression (cJSON *selector, const char *key, const char *operator, const char * value)
{
  cJSON *e = json_push_obj (json_arr (selector, "matchExpressions"));

  json_set_str (e, "key", key);
  json_set_str (e, "operator", operator);
  if (value != NULL)
    json_push_str (json_arr (e, "values"), value);
}

/* A key of the user's that GKE defines says where slices end on these nodes, e.g. a block of a larger slice
 * (facts/kuberay.md §2.9). NULL when there is none. */
static const char *
users_topology_key (const cJSON *affinity)
{
  const cJSON *terms = json_get (affinity, "podAffinity", REQUIRED), *term;

  if (cJSON_IsArray (terms))
    cJSON_ArrayForEach (term, terms)
      {
        const char *key = json_str (term, "topologyKey");

        if (key != NULL && text_starts_with (key, TOPOLOGY_KEY_PREFIX))
          return key;
      }
  return NULL;
}

/* Together with the hosts of its own slice. */
static cJSON *
attracting_terms (const struct tpu_identity *id, const char *topology_key)
{
  cJSON *terms = cJSON_CreateArray (), *term = json_push_obj (terms), *selector = json_obj (term, "labelSelector");

  add_expression (selector, TPU_LABEL_RAY_CLUSTER, "In", id->cluster);
  add_expression (selector, TPU_LABEL_RAY_REPLICA_NAME, "In", id->replica_name);
  json_set_str (term, "topologyKey", topology_key);
  return terms;
}

/* Apart from the hosts of every other slice. Exists, because NotIn alone also matches pods without the label: heads and
 * single-host workers. All namespaces but kube-system, as the KubeRay webhook has it, and for slices of the same
 * cluster name too: another namespace may use that name. */
static cJSON *
repelling_terms (const struct tpu_identity *id, const char *topology_key)
{
  cJSON *terms = cJSON_CreateArray ();

  for (int own_cluster = 1; own_cluster >= 0; own_cluster--)
    {
      cJSON *term = json_push_obj (terms), *selector = json_obj (term, "labelSelector");

      add_expression (selector, TPU_LABEL_RAY_CLUSTER, own_cluster ? "In" : "NotIn", id->cluster);
      add_expression (selector, TPU_LABEL_RAY_REPLICA_NAME, "Exists", NULL);
      if (own_cluster)
        add_expression (selector, TPU_LABEL_RAY_REPLICA_NAME, "NotIn", id->replica_name);
      add_expression (json_obj (term, "namespaceSelector"), "kubernetes.io/metadata.name", "NotIn", "kube-system");
      json_set_str (term, "topologyKey", topology_key);
    }
  return terms;
}

/* ---- merging ---- */

static bool
has_term (const cJSON *terms, const cJSON *wanted)
{
  const cJSON *term;

  cJSON_ArrayForEach (term, terms)
    if (json_equal (term, wanted))
      return true;
  return false;
}

/* Adds terms (taken) under spec.affinity.<kind>, making what is not there on the way down and repeating nothing. */
static void
merge_terms (cJSON *patch, const cJSON *affinity, const char *kind, cJSON *terms)
{
  cleanup_json cJSON *owned = terms;
  const cJSON *group = json_get (affinity, kind), *present = json_get (group, REQUIRED), *term;

  if (is_absent (group))
    {
      cJSON *made = cJSON_CreateObject ();

      json_set (made, REQUIRED, take_ptr (owned));
      json_patch_op (patch, "add", made, "spec", "affinity", kind);
    }
  else if (is_absent (present))
    json_patch_op (patch, "add", take_ptr (owned), "spec", "affinity", kind, REQUIRED);
  else
    cJSON_ArrayForEach (term, owned)
      if (!has_term (present, term))
        json_patch_op (patch, "add", cJSON_Duplicate (term, true), "spec", "affinity", kind, REQUIRED, "-");
}

static int
check_types (const cJSON *affinity, struct error *err)
{
  static const char *const kinds[] = { "podAffinity", "podAntiAffinity" };

  if (!is_absent (affinity) && !cJSON_IsObject (affinity))
    return error_set (err, EINVAL, "spec.affinity must be an object, this is %s", json_type_name (affinity));
  for (size_t i = 0; i < ARRAY_LEN (kinds); i++)
    {
      const cJSON *group = json_get (affinity, kinds[i]), *terms = json_get (group, REQUIRED);

      if (!is_absent (group) && !cJSON_IsObject (group))
        return error_set (err, EINVAL, "spec.affinity.%s must be an object, this is %s", kinds[i],
                          json_type_name (group));
      if (!is_absent (terms) && !cJSON_IsArray (terms))
        return error_set (err, EINVAL, "spec.affinity.%s." REQUIRED " must be an array, this is %s", kinds[i],
                          json_type_name (terms));
    }
  return 0;
}

static int
place_slice (cJSON *patch, cJSON *warnings, const cJSON *pod, const struct tpu_request *r,
             const struct tpu_identity *id, struct error *err)
{
  const cJSON *affinity = json_get (pod, "spec", "affinity");
  const char *key = users_topology_key (affinity);
  int ret = check_types (affinity, err);

  if (ret < 0 || id->replica_name == NULL)
    return ret;
  if (key == NULL && r->partial)
    {
      tpu_warn (warnings,
                "slice affinity is not injected: slice topology %s is not a whole node pool's; require podAffinity "
                "with the " TOPOLOGY_KEY_PREFIX " topologyKey of its nodes",
                r->topology_text);
      return 0;
    }
  key = key ? key : TOPOLOGY_KEY;
  if (is_absent (affinity))
    json_patch_op (patch, "add", cJSON_CreateObject (), "spec", "affinity");
  merge_terms (patch, affinity, "podAffinity", attracting_terms (id, key));
  merge_terms (patch, affinity, "podAntiAffinity", repelling_terms (id, key));
  return 0;
}

int
tpu_place (cJSON *patch, cJSON *warnings, const cJSON *pod, const struct tpu_request *r, const struct tpu_identity *id,
           struct error *err)
{
  cleanup_free char *hostname = NULL;

  if (id->owner != TPU_OWNER_RAY || id->unknown != NULL || r->hosts <= 1)
    return 0;
  hostname = xasprintf ("%s%" PRId64, id->stem, id->host); /* a Ray slice has no lead and counts from 0 */
  set_when_absent (patch, pod, "hostname", hostname);
  set_when_absent (patch, pod, "subdomain", id->domain);
  return place_slice (patch, warnings, pod, r, id, err);
}
