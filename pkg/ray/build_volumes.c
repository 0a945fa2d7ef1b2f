/* Volumes the operator adds (§3.7): shared memory for the object store, and the log folder that the head and its
 * autoscaler share. */
#include "ray/ray_internal.h"

#include <string.h>

/* "/dev/shm" and "/dev/shm/" are one place. */
static bool
same_path (const char *a, const char *b)
{
  size_t n = strlen (b);

  return a != NULL && strncmp (a, b, n) == 0 && (a[n] == '\0' || text_eq (a + n, "/"));
}

static const cJSON *
find_mount (const cJSON *container, const char *path)
{
  const cJSON *mount, *mounts = json_get (container, "volumeMounts");

  if (cJSON_IsArray (mounts))
    cJSON_ArrayForEach (mount, mounts)
      if (same_path (json_str (mount, "mountPath"), path))
        return mount;
  return NULL;
}

/* Mounts an emptyDir at path unless something is mounted there. The volume is made when none has the name; a user's
 * volume of that name is used as it is. Takes `source`. */
static void
add_empty_dir (struct pod_build *b, cJSON *container, const char *name, const char *path, cJSON *source)
{
  cleanup_json cJSON *owned = source;
  const cJSON *mount = find_mount (container, path);
  cJSON *entry;

  if (mount == NULL)
    {
      entry = json_push_obj (json_arr (container, "volumeMounts"));
      json_set_str (entry, "name", name);
      json_set_str (entry, "mountPath", path);
    }
  else if (!text_eq (json_str (mount, "name"), name))
    return;
  if (json_find (json_get (b->spec, "volumes"), "name", name) != NULL)
    return;
  entry = json_push_obj (json_arr (b->spec, "volumes"));
  json_set_str (entry, "name", name);
  json_set (entry, "emptyDir", take_ptr (owned));
}

/* Limited like the container's memory, because that is what it counts against. */
static void
add_shared_memory (struct pod_build *b)
{
  const cJSON *size = json_get (b->ray, "resources", "limits", "memory");
  cJSON *source = cJSON_CreateObject ();

  if (size == NULL)
    size = json_get (b->ray, "resources", "requests", "memory");
  json_set_str (source, "medium", "Memory");
  json_set_copy (source, "sizeLimit", size);
  add_empty_dir (b, b->ray, "shared-mem", "/dev/shm", source);
}

void
ray_add_volumes (struct pod_build *b)
{
  cJSON *autoscaler = json_find (json_get (b->spec, "containers"), "name", RAY_AUTOSCALER_CONTAINER);

  if (json_get (b->params, "plasma-directory") == NULL)
    add_shared_memory (b);
  if (!b->group->is_head || !b->cluster->autoscaling)
    return;
  add_empty_dir (b, b->ray, "ray-logs", "/tmp/ray", cJSON_CreateObject ());
  if (autoscaler != NULL && autoscaler != b->ray)
    add_empty_dir (b, autoscaler, "ray-logs", "/tmp/ray", cJSON_CreateObject ());
}
