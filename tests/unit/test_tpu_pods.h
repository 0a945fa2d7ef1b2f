/* test_tpu_pods.h - pods as their controllers would post them, and questions about what injection made of them. */
#ifndef TEST_TPU_PODS_H
#define TEST_TPU_PODS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tpu/tpu.h"

#ifndef TEST_FIXTURES
#define TEST_FIXTURES "tests/fixtures"
#endif

/* JSON with ' for ", which no test text needs. */
static inline cJSON *
parse_json (const char *text)
{
  cleanup_free char *json = xstrdup (text);
  struct error err = { 0 };
  cJSON *v;

  for (char *p = json; *p; p++)
    if (*p == '\'')
      *p = '"';
  if (json_parse (&v, json, strlen (json), &err) < 0)
    fail_msg ("%s in %s", err.message, json);
  return v;
}

/* A pod whose container "main" asks for `chips`, with node selectors where they are not NULL. */
static inline cJSON *
make_pod (const char *accelerator, const char *topology, const char *chips)
{
  cJSON *pod = parse_json ("{'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {}, 'spec': {'containers': "
                           "[{'name': 'main', 'image': 'i'}, {'name': 'idle', 'image': 'i'}]}}");
  cJSON *spec = json_get (pod, "spec"), *main = json_get (spec, "containers")->child;

  if (accelerator != NULL)
    json_set_str (json_obj (spec, "nodeSelector"), "cloud.google.com/gke-tpu-accelerator", accelerator);
  if (topology != NULL)
    json_set_str (json_obj (spec, "nodeSelector"), "cloud.google.com/gke-tpu-topology", topology);
  if (chips != NULL)
    json_set_str (json_obj (json_obj (main, "resources"), "limits"), "google.com/tpu", chips);
  return pod;
}

static inline void
set_label (cJSON *pod, const char *key, const char *value)
{
  json_set_str (json_obj (json_get (pod, "metadata"), "labels"), key, value);
}

/* As KubeRay 1.6 creates a worker with RayMultiHostIndexing: no name yet, index labels, no hostname. */
static inline cJSON *
make_ray_pod (const char *accelerator, const char *topology, const char *chips, const char *cluster, const char *group,
              int replica, int host)
{
  cJSON *pod = make_pod (accelerator, topology, chips), *meta = json_get (pod, "metadata");
  char text[128];

  snprintf (text, sizeof (text), "%s-%s-worker-", cluster, group);
  json_set_str (meta, "generateName", text);
  set_label (pod, "app.kubernetes.io/name", "kuberay");
  set_label (pod, "ray.io/cluster", cluster);
  set_label (pod, "ray.io/group", group);
  set_label (pod, "ray.io/node-type", "worker");
  snprintf (text, sizeof (text), "%d", replica);
  set_label (pod, "ray.io/worker-group-replica-index", text);
  if (host < 0) /* a group of single hosts */
    return pod;
  snprintf (text, sizeof (text), "%d", host);
  set_label (pod, "ray.io/replica-host-index", text);
  snprintf (text, sizeof (text), "%s-%c%c%c%c%c", group, 'a' + replica % 26, 'b', 'c', 'd', 'f');
  set_label (pod, "ray.io/worker-group-replica-name", text);
  return pod;
}

/* As the Job controller creates a pod of an Indexed Job (§2.1). */
static inline cJSON *
make_job_pod (const char *accelerator, const char *topology, const char *chips, const char *job, int index,
              const char *subdomain)
{
  cJSON *pod = make_pod (accelerator, topology, chips), *meta = json_get (pod, "metadata");
  char number[16], text[128];

  snprintf (number, sizeof (number), "%d", index);
  snprintf (text, sizeof (text), "%s-%d-", job, index);
  json_set_str (meta, "generateName", text);
  json_set_str (json_obj (meta, "annotations"), "batch.kubernetes.io/job-completion-index", number);
  set_label (pod, "batch.kubernetes.io/job-completion-index", number);
  set_label (pod, "batch.kubernetes.io/job-name", job);
  set_label (pod, "job-name", job);
  text[strlen (text) - 1] = '\0';
  json_set_str (json_get (pod, "spec"), "hostname", text);
  json_set_str (json_get (pod, "spec"), "subdomain", subdomain);
  return pod;
}

/* Changes a pod with JSON Patch operations. */
static inline void
edit (cJSON *pod, const char *operations)
{
  cleanup_json cJSON *patch = parse_json (operations);
  struct error err = { 0 };

  if (json_patch_apply (pod, patch, &err) < 0)
    fail_msg ("%s in %s", err.message, operations);
}

/* Injects into the pod itself, and proves that a second injection has nothing to add and says the same. */
static inline struct tpu_injection
admit (cJSON *pod, const struct tpu_options *options)
{
  cleanup_injection struct tpu_injection again = { 0 };
  struct tpu_injection first;
  struct error err = { 0 };

  if (tpu_inject (&first, pod, options, &err) < 0)
    fail_msg ("refused: %s", err.message);
  if (json_patch_apply (pod, first.patch, &err) < 0)
    fail_msg ("%s", err.message);
  assert_int_equal (tpu_inject (&again, pod, options, &err), 0);
  if (cJSON_GetArraySize (again.patch) != 0)
    fail_msg ("injection is not idempotent: %s", json_print (again.patch));
  assert_true (json_equal (first.warnings, again.warnings));
  assert_string_equal (first.slice, again.slice);
  return first;
}

static inline void
admit_quietly (cJSON *pod)
{
  struct tpu_injection in = admit (pod, NULL);

  tpu_injection_free (&in);
}

static inline const cJSON *
container_at (const cJSON *pod, const char *section, int index)
{
  return cJSON_GetArrayItem (json_get (pod, "spec", section), index);
}

static inline const cJSON *
env_entry (const cJSON *container, const char *name)
{
  return json_find (json_get (container, "env"), "name", name);
}

/* Value of a variable of the first container, NULL when there is no such entry or no literal. */
static inline const char *
env_of (const cJSON *pod, const char *name)
{
  return json_str (env_entry (container_at (pod, "containers", 0), name), "value");
}

static inline size_t
count_entries (const char *list)
{
  size_t n = list != NULL && *list ? 1 : 0;

  for (; list != NULL && *list; list++)
    n += *list == ',';
  return n;
}

static inline bool
warned (const struct tpu_injection *injection, const char *part)
{
  const cJSON *w;

  cJSON_ArrayForEach (w, injection->warnings)
    if (strstr (w->valuestring, part) != NULL)
      return true;
  return false;
}

/* Compares the first container's variables with "NAME=value" strings; "NAME" alone means: must not be there. NULL ends.
 */
static inline void
check_env (const char *what, const cJSON *container, const char *const *expected)
{
  for (; *expected != NULL; expected++)
    {
      const char *equals = strchr (*expected, '=');
      cleanup_free char *name = equals ? xstrndup (*expected, (size_t) (equals - *expected)) : xstrdup (*expected);
      const cJSON *entry = env_entry (container, name);
      const char *value = json_str (entry, "value");

      if (equals == NULL && entry != NULL)
        fail_msg ("%s: %s must not be there, it is \"%s\"", what, name, log_nonnull (value));
      if (equals != NULL && !text_eq (value, equals + 1))
        fail_msg ("%s: %s is \"%s\", expected \"%s\"", what, name, value ? value : "(absent)", equals + 1);
    }
}

/* ---- pods to start from, and edits of them ---- */

enum base
{
  RAY,     /* v6e 4x4, slice 0 host 1 of group g of cluster c */
  RAY7,    /* tpu7x 2x2x2, slice 1 host 1 */
  RAY_ONE, /* v6e 2x4 with 8 chips: single host */
  JOB,     /* v6e 4x4, completion 2 of job j, subdomain s */
  JOB7,    /* tpu7x 2x2x2, completion 1 */
  BARE,    /* v6e 2x2, no owner, named p */
  BASE_MAX
};

static inline cJSON *
make_base (enum base base)
{
  static const struct
  {
    const char *accelerator, *topology, *chips;
    int replica, index;
  } bases[BASE_MAX] = {
    [RAY] = { "tpu-v6e-slice", "4x4", "4", 0, 1 },      [RAY7] = { "tpu7x", "2x2x2", "4", 1, 1 },
    [RAY_ONE] = { "tpu-v6e-slice", "2x4", "8", 3, -1 }, [JOB] = { "tpu-v6e-slice", "4x4", "4", 0, 2 },
    [JOB7] = { "tpu7x", "2x2x2", "4", 0, 1 },           [BARE] = { "tpu-v6e-slice", "2x2", "4", 0, 0 },
  };
  const char *accelerator = bases[base].accelerator, *topology = bases[base].topology, *chips = bases[base].chips;
  cJSON *pod;

  if (base <= RAY_ONE)
    return make_ray_pod (accelerator, topology, chips, "c", "g", bases[base].replica, bases[base].index);
  if (base <= JOB7)
    return make_job_pod (accelerator, topology, chips, "j", bases[base].index, "s");
  pod = make_pod (accelerator, topology, chips);
  json_set_str (json_get (pod, "metadata"), "name", "p");
  return pod;
}

#define ADD_ENV(entries) "[{'op': 'add', 'path': '/spec/containers/0/env', 'value': [" entries "]}]"
#define SELECT(accelerator, topology)                                                                                  \
  "{'op': 'add', 'path': '/spec/nodeSelector', 'value': {'cloud.google.com/gke-tpu-accelerator': '" accelerator        \
  "', 'cloud.google.com/gke-tpu-topology': '" topology "'}}"

/* In the order in which they are written; the last two are about the node, not about the place in the slice. */
static const char *const all_variables[] = {
  "MEGASCALE_SLICE_ID",
  "MEGASCALE_COORDINATOR_ADDRESS",
  "MEGASCALE_PORT",
  "TPU_WORKER_HOSTNAMES",
  "TPU_PROCESS_ADDRESSES",
  "TPU_PROCESS_PORT",
  "TORCH_TPU_TOPOLOGY",
  "TORCH_TPU_SLICEBUILDER_ADDRESSES",
  "TPU_WORKER_ID",
  "TPU_NAME",
  "TPU_DEVICE_PLUGIN_HOST_IP",
  "TPU_DEVICE_PLUGIN_ADDR",
};

#endif
