/* test_ray.h - what the tests of pkg/ray share: manifests in YAML, one-line builds, and what a real API server would
 * say about the result. */
#ifndef TEST_RAY_H
#define TEST_RAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ray/build.h"
#include "ray/plan.h"
#include "ray/ray_internal.h"
#include "ray/validate.h"

struct scene
{
  cJSON *object;
  struct ray_cluster cluster;
};

static inline void
scene_close (struct scene *s)
{
  ray_cluster_free (&s->cluster);
  cJSON_Delete (s->object);
}

#define cleanup_scene __attribute__ ((cleanup (scene_close)))

/* Takes object. */
static inline struct scene
scene_of (cJSON *object)
{
  struct scene s = { .object = object };
  struct error err = { 0 };

  if (ray_cluster_decode (&s.cluster, object, NULL, &err) < 0)
    fail_msg ("decode: %s", err.message);
  return s;
}

static inline cJSON *
yaml_one (const char *text)
{
  cleanup_json cJSON *docs = NULL;
  struct error err = { 0 };

  if (yaml_parse (&docs, text, strlen (text), &err) < 0)
    fail_msg ("yaml: %s\n%s", err.message, text);
  assert_int_equal (cJSON_GetArraySize (docs), 1);
  return cJSON_DetachItemFromArray (docs, 0);
}

static inline struct scene
scene_yaml (const char *text)
{
  return scene_of (yaml_one (text));
}

/* The manifest after a JSON Patch written in JSON. */
static inline struct scene
scene_patched (const char *yaml, const char *patch_text)
{
  cleanup_json cJSON *object = yaml_one (yaml), *patch = NULL;
  struct error err = { 0 };

  if (json_parse (&patch, patch_text, strlen (patch_text), &err) < 0 || json_patch_apply (object, patch, &err) < 0)
    fail_msg ("%s: %s", patch_text, err.message);
  return scene_of (take_ptr (object));
}

static inline char *
read_fixture (const char *name)
{
  const char *folder = getenv ("RAY_TPU_TESTDATA");
  cleanup_free char *path = xasprintf ("%s/%s", folder != NULL ? folder : TEST_FIXTURES, name);
  struct buf text = { 0 };
  struct error err = { 0 };

  if (text_read_file (path, 1 << 20, &text, &err) < 0)
    fail_msg ("%s", err.message);
  return buf_take (&text);
}

static inline struct scene
scene_fixture (const char *name)
{
  cleanup_free char *text = read_fixture (name);

  return scene_yaml (text);
}

/* ---- reading what was built ---- */

static inline cJSON *
item_at (const cJSON *array, int index)
{
  cJSON *item = cJSON_GetArrayItem (array, index);

  assert_non_null (item);
  return item;
}

static inline cJSON *
ray_container_of (const cJSON *pod)
{
  return item_at (json_get (pod, "spec", "containers"), 0);
}

static inline cJSON *
env_entry (const cJSON *container, const char *name)
{
  return json_find (json_get (container, "env"), "name", name);
}

static inline const char *
env_value (const cJSON *container, const char *name)
{
  return json_str (env_entry (container, name), "value");
}

static inline const char *
only_arg (const cJSON *container)
{
  assert_int_equal (cJSON_GetArraySize (json_get (container, "args")), 1);
  return item_at (json_get (container, "args"), 0)->valuestring;
}

/* "a=1,b=None" of a Service's ports, or of any list of objects with `name` and `number_key`. */
static inline char *
ports_text (const cJSON *ports, const char *number_key)
{
  struct buf text = { 0 };
  const cJSON *port;

  cJSON_ArrayForEach (port, ports)
    buf_printf (&text, "%s%s=%d", text.len > 0 ? "," : "", json_str (port, "name"),
                (int) json_int (port, -1, number_key));
  return buf_take (&text);
}

static inline void
assert_json_text (const cJSON *got, const char *expected)
{
  cleanup_json cJSON *wanted = NULL;
  cleanup_free char *text = json_print (got);

  assert_int_equal (json_parse (&wanted, expected, strlen (expected), NULL), 0);
  if (!json_equal (got, wanted))
    fail_msg ("got %s, expected %s", text, expected);
}

/* ---- what the API server would refuse ---- */

static inline void
assert_no_nulls (const cJSON *v)
{
  const cJSON *item;

  if (cJSON_IsNull (v))
    fail_msg ("null at %s", v->string != NULL ? v->string : "an element");
  cJSON_ArrayForEach (item, v)
    assert_no_nulls (item);
}

static inline void
assert_unique (const cJSON *list, const char *key)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, list)
    if (json_find (list, key, json_str (item, key)) != item && json_str (item, key) != NULL)
      fail_msg ("%s %s twice", key, json_str (item, key));
}

static inline void
assert_container_postable (const cJSON *pod, const cJSON *container)
{
  const cJSON *mount;

  assert_true (text_is_dns1123_label (json_str (container, "name")));
  assert_unique (json_get (container, "ports"), "name");
  assert_unique (json_get (container, "volumeMounts"), "mountPath");
  cJSON_ArrayForEach (mount, json_get (container, "volumeMounts"))
    if (json_find (json_get (pod, "spec", "volumes"), "name", json_str (mount, "name")) == NULL)
      fail_msg ("mount of volume %s, which is not there", json_str (mount, "name"));
}

static inline void
assert_pod_postable (const cJSON *pod)
{
  const cJSON *containers = json_get (pod, "spec", "containers"), *inits = json_get (pod, "spec", "initContainers");
  const cJSON *c;

  assert_no_nulls (pod);
  assert_unique (json_get (pod, "spec", "volumes"), "name");
  assert_unique (containers, "name");
  assert_unique (inits, "name");
  cJSON_ArrayForEach (c, containers)
    {
      assert_null (json_find (inits, "name", json_str (c, "name")));
      assert_container_postable (pod, c);
    }
  cJSON_ArrayForEach (c, inits)
    assert_container_postable (pod, c);
}

static inline void
assert_service_postable (const cJSON *service)
{
  const cJSON *ports = json_get (service, "spec", "ports"), *a, *b;

  assert_no_nulls (service);
  assert_unique (ports, "name");
  cJSON_ArrayForEach (a, ports)
    for (b = a->next; b != NULL; b = b->next)
      if (json_int (a, 0, "port") == json_int (b, 0, "port")
          && text_eq (json_str (a, "protocol"), json_str (b, "protocol")))
        fail_msg ("port %d twice", (int) json_int (a, 0, "port"));
}

/* ---- building ---- */

/* The pod of host `host` of slice `replica`, or the head. Fails the test when it cannot be built. Owned by the caller.
 */
static inline cJSON *
build_with (const struct scene *s, const struct ray_group *group, int replica, int host,
            const struct ray_options *options)
{
  struct ray_identity identity = { .replica_index = replica, .host_index = host };
  struct error err = { 0 };
  cJSON *pod;

  ray_pod_name_prefix (identity.name, &s->cluster, group);
  strcat (identity.name, "abcde");
  if (group->hosts > 1)
    snprintf (identity.replica_name, sizeof (identity.replica_name), "%.200s-x7k2p", group->name);
  if (ray_build_pod (&pod, &s->cluster, group, &identity, options, &err) < 0)
    fail_msg ("build: %s", err.message);
  assert_pod_postable (pod);
  return pod;
}

static inline cJSON *
build_head (const struct scene *s)
{
  return build_with (s, &s->cluster.head, 0, 0, &ray_default_options);
}

static inline cJSON *
build_worker (const struct scene *s, int replica, int host)
{
  return build_with (s, &s->cluster.groups[0], replica, host, &ray_default_options);
}

/* What a pod carries besides the hash that every pod of ours has; removes that hash. NULL when nothing is left. */
static inline const cJSON *
other_annotations (cJSON *pod)
{
  cJSON *annotations = json_get (pod, "metadata", "annotations");

  assert_non_null (json_str (annotations, RAY_ANNOTATION_TEMPLATE_HASH));
  json_drop (annotations, RAY_ANNOTATION_TEMPLATE_HASH);
  return annotations->child ? annotations : NULL;
}

#endif
