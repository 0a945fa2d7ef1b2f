/* A pod from a group's template: what belongs where, in the order of §3.1. Features that come later have their place in
 * assemble (): GCS fault tolerance, authentication, TLS and the history collector add to the template before volumes,
 * command, environment and probes are decided. */
#include "ray/ray_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

const struct ray_options ray_default_options = {
  .cluster_domain = "cluster.local",
  .init_container = true,
  .probes = true,
  .inject_tpu = true,
  .version = "dev",
  .tpu = TPU_DEFAULT_OPTIONS,
};

void
ray_set_owner (cJSON *object, const struct ray_cluster *cluster)
{
  cJSON *owner;

  if (*cluster->uid == '\0')
    return;
  owner = json_push_obj (json_set (json_obj (object, "metadata"), "ownerReferences", cJSON_CreateArray ()));
  json_set_str (owner, "apiVersion", "ray.io/v1");
  json_set_str (owner, "kind", "RayCluster");
  json_set_str (owner, "name", cluster->name);
  json_set_str (owner, "uid", cluster->uid);
  json_set_bool (owner, "controller", true);
  json_set_bool (owner, "blockOwnerDeletion", true);
}

void
ray_drop_nulls (cJSON *v)
{
  for (cJSON *item = v->child, *next; item != NULL; item = next)
    {
      next = item->next;
      if (cJSON_IsNull (item))
        cJSON_Delete (cJSON_DetachItemViaPointer (v, item));
      else
        ray_drop_nulls (item);
    }
}

/* The parts of a template that the schema allows and a pod can have; its name and namespace are not the user's to
 * choose. */
static int
begin (struct pod_build *b, struct error *err)
{
  cJSON *containers;

  b->template = cJSON_Duplicate (b->group->template, true);
  ray_drop_nulls (b->template);
  b->pod = cJSON_CreateObject ();
  json_set_str (b->pod, "apiVersion", "v1");
  json_set_str (b->pod, "kind", "Pod");
  b->meta = json_obj (b->pod, "metadata");
  json_set_str (b->meta, "name", b->identity->name);
  json_set_str (b->meta, "namespace", b->cluster->namespace);
  json_set_copy (b->meta, "finalizers", json_get (b->template, "metadata", "finalizers"));
  b->spec = json_set (b->pod, "spec",
                      cJSON_DetachItemFromObjectCaseSensitive (b->template, "spec") ?: cJSON_CreateObject ());
  containers = json_get (b->spec, "containers");
  b->ray = cJSON_IsArray (containers) ? containers->child : NULL;
  if (!cJSON_IsObject (b->ray))
    return error_set (err, EINVAL, "the template of group %s has no containers: the first one must run Ray",
                      b->group->name);
  return 0;
}

/* How a worker of a multi-host group is reached by its peers (§2.9, §9.18); a template's own names stay. */
static void
add_hostname (struct pod_build *b)
{
  char subdomain[RAY_NAME_SIZE];
  cleanup_free char *hostname
      = xasprintf ("%s-%" PRId64 "-%" PRId64, b->group->name, b->identity->replica_index, b->identity->host_index);

  if (b->group->is_head || b->group->hosts <= 1 || !b->options->inject_tpu)
    return;
  ray_headless_service_name (subdomain, b->cluster);
  if (json_get (b->spec, "hostname") == NULL)
    json_set_str (b->spec, "hostname", hostname);
  if (json_get (b->spec, "subdomain") == NULL)
    json_set_str (b->spec, "subdomain", subdomain);
}

static int
add_tpu (struct pod_build *b, struct error *err)
{
  cleanup_injection struct tpu_injection injection = { 0 };
  int ret;

  if (!b->options->inject_tpu)
    return 0;
  add_hostname (b);
  ret = tpu_inject (&injection, b->pod, &b->options->tpu, err);
  if (ret == 0)
    ret = json_patch_apply (b->pod, injection.patch, err);
  return ret < 0 ? error_wrap (err, ret, "pod %s of group %s", b->identity->name, b->group->name) : 0;
}

static int
assemble (struct pod_build *b, struct error *err)
{
  int ret = begin (b, err);

  if (ret < 0)
    return ret;
  ray_add_labels (b);
  ray_add_annotations (b);
  ray_set_owner (b->pod, b->cluster);
  ray_params_add_container (b->params, json_get (b->ray, "resources"));
  b->ray_start = ray_params_render (b->params, b->group->is_head);
  ray_add_wait_container (b);
  ray_add_autoscaler (b);
  ray_add_metrics_port (b);
  if (ray_autoscaler_v2 (b->cluster))
    json_set_str (b->spec, "restartPolicy", "Never"); /* v2 replaces pods itself (§3.7) */
  ray_add_volumes (b);
  ray_add_command (b);
  ray_add_env (b);
  if (b->options->probes)
    ray_add_probes (b);
  ray_drop_nulls (b->pod);
  return add_tpu (b, err);
}

int
ray_build_pod (cJSON **pod, const struct ray_cluster *cluster, const struct ray_group *group,
               const struct ray_identity *identity, const struct ray_options *options, struct error *err)
{
  struct pod_build b = { .cluster = cluster, .group = group, .identity = identity, .options = options };
  int ret;

  *pod = NULL;
  ray_head_service_name (b.head_service, cluster);
  ray_head_fqdn (b.head_fqdn, cluster, options);
  b.params = ray_params_new (cluster, group, options);
  ret = assemble (&b, err);
  if (ret == 0)
    *pod = take_ptr (b.pod);
  cJSON_Delete (b.pod);
  cJSON_Delete (b.template);
  cJSON_Delete (b.params);
  free (b.ray_start);
  return ret;
}
