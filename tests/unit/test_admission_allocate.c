/* The allocation of places over an API server with optimistic concurrency, played by a server in this process: Leases
 * with resourceVersions, Pods, a RayCluster. */
#include "test_tpu_pods.h"

#include <pthread.h>
#include <stdatomic.h>

#include "admission/allocate.h"
#include "kube_test_server.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/system/leases"
#define CLUSTER_UID "0c1f"

/* ---- the API server ---- */

struct world
{
  pthread_mutex_t lock;
  cJSON *pods, *leases; /* arrays */
  int version, posts, puts, conflicts;
  int replicas, hosts; /* of the RayCluster; replicas -1: there is none */
  const char *uid, *group;
  const char *topology; /* of v6e, 4 chips a Pod: the group has a template; else NULL */
  int lose_answers;     /* so many Lease writes are applied, but answered with 500 */
  int refuse;           /* all Lease requests are answered with this status */
  struct test_server *server;
};

static cJSON *
find_lease (const struct world *w, const char *name)
{
  cJSON *lease;

  cJSON_ArrayForEach (lease, w->leases)
    if (text_eq (json_str (lease, "metadata", "name"), name))
      return lease;
  return NULL;
}

/* What the API server leaves of Pods for a list of metadata under a field selector. */
static cJSON *
select_pods (const struct world *w, const char *path)
{
  bool wants_ended = strstr (path, "status.phase%21%3DRunning") != NULL;
  cJSON *selected = cJSON_CreateArray (), *copy;
  const cJSON *pod;

  cJSON_ArrayForEach (pod, w->pods)
    {
      const char *phase = json_str (pod, "status", "phase");

      if ((text_eq (phase, "Failed") || text_eq (phase, "Succeeded")) != wants_ended)
        continue;
      copy = cJSON_CreateObject ();
      json_set_copy (copy, "metadata", json_get (pod, "metadata"));
      json_push (selected, copy);
    }
  return selected;
}

static char *
list_of (const cJSON *items)
{
  cleanup_free char *text = json_print (items);

  return xasprintf ("{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"1\"},\"items\":%s}", text);
}

static void
answer_status (struct test_answer *answer, int status, const char *reason)
{
  answer->status = status;
  answer->body = xasprintf ("{\"kind\":\"Status\",\"status\":\"Failure\",\"code\":%d,\"reason\":\"%s\","
                            "\"message\":\"%s\"}",
                            status, reason, reason);
}

static void
store_lease (struct world *w, cJSON *lease, struct test_answer *answer)
{
  char text[16];

  snprintf (text, sizeof (text), "%d", ++w->version);
  json_set_str (json_obj (lease, "metadata"), "resourceVersion", text);
  json_push (w->leases, lease);
  if (w->lose_answers > 0 && w->lose_answers--)
    answer_status (answer, 500, "InternalError");
  else
    answer->body = json_print (lease);
}

static void
write_lease (struct world *w, const struct test_request *request, struct test_answer *answer)
{
  bool post = strcmp (request->method, "POST") == 0;
  cJSON *lease = NULL, *stored;

  if (json_parse (&lease, request->body, strlen (request->body), NULL) < 0)
    fail_msg ("no JSON: %s", request->body);
  stored = find_lease (w, json_str (lease, "metadata", "name"));
  *(post ? &w->posts : &w->puts) += 1;
  if (post ? stored != NULL
           : stored == NULL
                 || !text_eq (json_str (stored, "metadata", "resourceVersion"),
                              json_str (lease, "metadata", "resourceVersion")))
    {
      w->conflicts++;
      cJSON_Delete (lease);
      answer_status (answer, 409, post ? "AlreadyExists" : "Conflict");
      return;
    }
  if (stored != NULL)
    cJSON_Delete (cJSON_DetachItemViaPointer (w->leases, stored));
  store_lease (w, lease, answer);
}

static void
serve_lease (struct world *w, const struct test_request *request, struct test_answer *answer)
{
  const char *name = request->path + strlen (LEASES);
  cJSON *lease;

  if (w->refuse != 0)
    answer_status (answer, w->refuse, "Refused");
  else if (strcmp (request->method, "POST") == 0 || strcmp (request->method, "PUT") == 0)
    write_lease (w, request, answer);
  else if (name[0] != '/')
    answer->body = list_of (w->leases);
  else if ((lease = find_lease (w, name + 1)) == NULL)
    answer_status (answer, 404, "NotFound");
  else if (strcmp (request->method, "DELETE") == 0)
    cJSON_Delete (cJSON_DetachItemViaPointer (w->leases, lease));
  else
    answer->body = json_print (lease);
}

/* Whole Pods may be a MiB each, and a group has thousands. */
static void
serve_pods (const struct world *w, const struct test_request *request, struct test_answer *answer)
{
  cleanup_json cJSON *selected = select_pods (w, request->path);

  if (strcmp (request->accept, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1") != 0
      || strstr (request->path, "?limit=50&") == NULL || strstr (request->path, "&fieldSelector=status.phase") == NULL)
    answer_status (answer, 403, "TooMuch");
  else
    answer->body = list_of (selected);
}

static char *
cluster_of (const struct world *w)
{
  cleanup_json cJSON *pod = make_pod ("tpu-v6e-slice", w->topology, "4");
  cleanup_free char *template = json_print (pod);

  return xasprintf ("{\"metadata\":{\"name\":\"c\",\"uid\":\"%s\"},\"spec\":{\"workerGroupSpecs\":[{\"groupName\":"
                    "\"%s\",\"replicas\":%d,\"numOfHosts\":%d,\"template\":%s}]}}",
                    w->uid, w->group, w->replicas, w->hosts, w->topology ? template : "{}");
}

static void
serve (void *data, const struct test_request *request, struct test_answer *answer)
{
  struct world *w = data;

  pthread_mutex_lock (&w->lock);
  if (text_starts_with (request->path, LEASES))
    serve_lease (w, request, answer);
  else if (text_starts_with (request->path, "/api/v1/namespaces/ml/pods?"))
    serve_pods (w, request, answer);
  else if (text_eq (request->path, "/apis/ray.io/v1/namespaces/ml/rayclusters/c") && w->replicas >= 0)
    answer->body = cluster_of (w);
  else
    answer_status (answer, 404, "NotFound");
  pthread_mutex_unlock (&w->lock);
}

static int
begin (void **state)
{
  struct world *w = xcalloc (1, sizeof (*w));

  pthread_mutex_init (&w->lock, NULL);
  w->pods = cJSON_CreateArray ();
  w->leases = cJSON_CreateArray ();
  w->replicas = 1;
  w->hosts = 4;
  w->uid = CLUSTER_UID;
  w->group = "g";
  w->server = test_server_start (serve, w, false);
  log_configure (LOG_ERROR, LOG_TEXT);
  *state = w;
  return 0;
}

static int
end (void **state)
{
  struct world *w = *state;

  test_server_stop (w->server);
  cJSON_Delete (w->pods);
  cJSON_Delete (w->leases);
  pthread_mutex_destroy (&w->lock);
  free (w);
  return 0;
}

/* ---- one replica of the webhook, and who creates pods ---- */

struct replica
{
  struct kube_client *client;
  struct admission_allocator *allocator;
};

static struct replica
replica_start_idle (const struct world *w, int64_t ttl_ms, int64_t idle_ms)
{
  struct replica r = { .client = test_server_client (w->server, NULL) };

  r.allocator = admission_allocator_new (r.client, "system", &tpu_default_options, ttl_ms, idle_ms);
  return r;
}

static struct replica
replica_start (const struct world *w, int64_t ttl_ms)
{
  return replica_start_idle (w, ttl_ms, 60000);
}

static void
replica_stop (struct replica *r)
{
  admission_allocator_free (r->allocator);
  kube_client_free (r->client);
}
#define cleanup_replica __attribute__ ((cleanup (replica_stop)))

/* A worker of KubeRay without index labels. */
static cJSON *
make_worker (void)
{
  cJSON *pod = make_pod ("tpu-v6e-slice", "4x4", "4"), *owner;

  set_label (pod, "ray.io/cluster", "c");
  set_label (pod, "ray.io/group", "g");
  set_label (pod, "ray.io/node-type", "worker");
  owner = json_push_obj (json_arr (json_get (pod, "metadata"), "ownerReferences"));
  json_set_str (owner, "kind", "RayCluster");
  json_set_str (owner, "name", "c");
  json_set_str (owner, "uid", CLUSTER_UID);
  return pod;
}

static void
store_pod (struct world *w, cJSON *pod)
{
  pthread_mutex_lock (&w->lock);
  json_push (w->pods, pod);
  pthread_mutex_unlock (&w->lock);
}

static int
allocate (struct replica *r, const cJSON *pod, bool dry_run, struct place *place, struct error *err)
{
  const struct admission_request request = { .namespace = "ml", .object = pod, .dry_run = dry_run };
  struct tpu_place_need need;
  struct place_entry got = { .expires_ms = 0 };
  int ret;

  assert_int_equal (tpu_place_needed (&need, pod, NULL, NULL), 1);
  ret = admission_allocate (r->allocator, &request, &need, &got, err);
  *place = got.place;
  return ret;
}

static int
allocate_one (struct replica *r, bool dry_run, struct place *place, struct error *err)
{
  cleanup_json cJSON *pod = make_worker ();

  return allocate (r, pod, dry_run, place, err);
}

static void
settle (struct world *w, const struct place *place)
{
  cJSON *pod = make_worker ();
  cJSON *annotations = json_obj (json_get (pod, "metadata"), "annotations");
  char text[16];

  snprintf (text, sizeof (text), "%d", (int) place->replica);
  json_set_str (annotations, TPU_ANNOTATION_REPLICA_INDEX, text);
  snprintf (text, sizeof (text), "%d", (int) place->host);
  json_set_str (annotations, TPU_ANNOTATION_HOST_INDEX, text);
  store_pod (w, pod);
}

#define assert_place(place, r, h)                                                                                      \
  do                                                                                                                   \
    {                                                                                                                  \
      assert_int_equal ((place).replica, (r));                                                                         \
      assert_int_equal ((place).host, (h));                                                                            \
    }                                                                                                                  \
  while (0)

/* ---- tests ---- */

#define CREATORS 16
#define SLICES 16

struct creator
{
  struct world *world;
  struct replica *replica;
  atomic_int *left;
  atomic_int *taken; /* per place */
};

static void *
create_pods (void *data)
{
  struct creator *c = data;

  while (atomic_fetch_sub (c->left, 1) > 0)
    {
      struct place place = { 0 };
      struct error err = { "" };
      int ret = allocate_one (c->replica, false, &place, &err);

      if (ret < 0)
        {
          fprintf (stderr, "%s\n", err.message);
          abort ();
        }
      atomic_fetch_add (&c->taken[place.replica * 4 + place.host], 1);
      if (place.host % 2 == 0) /* the others stay on their way */
        settle (c->world, &place);
    }
  return NULL;
}

static void
two_replicas_and_many_creators_fill_every_place_once (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica a = replica_start (w, 60000), b = replica_start (w, 60000);
  atomic_int left = SLICES * 4, taken[SLICES * 4] = { 0 };
  struct creator creators[CREATORS];
  pthread_t threads[CREATORS];
  struct place place;
  struct error err = { "" };

  w->replicas = SLICES;
  for (int i = 0; i < CREATORS; i++)
    {
      creators[i] = (struct creator){ w, i % 2 ? &a : &b, &left, taken };
      pthread_create (&threads[i], NULL, create_pods, &creators[i]);
    }
  for (int i = 0; i < CREATORS; i++)
    pthread_join (threads[i], NULL);
  for (int i = 0; i < SLICES * 4; i++)
    if (taken[i] != 1)
      fail_msg ("place %d.%d was given to %d pods", i / 4, i % 4, taken[i]);
  assert_int_equal (cJSON_GetArraySize (w->leases), 1);
  assert_int_equal (allocate_one (&a, false, &place, &err), -EAGAIN);
}

static void
a_pod_takes_the_place_of_the_one_that_is_gone (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  struct error err = { "" };
  struct place place;

  for (int host = 0; host < 4; host++)
    if (host != 2)
      settle (w, &(struct place){ 0, host });
  assert_int_equal (allocate_one (&r, false, &place, &err), 0);
  assert_place (place, 0, 2);
  settle (w, &place);
  assert_int_equal (allocate_one (&r, false, &place, &err), -ENOSPC);
  assert_non_null (strstr (err.message, "1 TPU slices of group g of RayCluster c"));
  json_set_str (json_get (cJSON_GetArrayItem (w->pods, 1), "metadata"), "deletionTimestamp", "2026-01-01T00:00:00Z");
  assert_int_equal (allocate_one (&r, false, &place, &err), 0);
  assert_place (place, 0, 1);
}

static void
a_reservation_whose_pod_never_came_expires (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 1);
  struct error err = { "" };
  struct place place;

  for (int i = 0; i < 3; i++)
    {
      assert_int_equal (allocate_one (&r, false, &place, &err), 0);
      assert_place (place, 0, 0);
      clock_sleep_ms (5);
    }
}

static void
a_dry_run_writes_nothing (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  struct error err = { "" };
  struct place place;

  settle (w, &(struct place){ 0, 0 });
  for (int i = 0; i < 2; i++)
    {
      assert_int_equal (allocate_one (&r, true, &place, &err), 0);
      assert_place (place, 0, 1);
    }
  assert_int_equal (w->posts + w->puts, 0);
}

static void
a_write_whose_answer_was_lost_counts (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  struct error err = { "" };
  struct place place;

  w->lose_answers = 1; /* the client sends it again and is told of a conflict */
  assert_int_equal (allocate_one (&r, false, &place, &err), 0);
  assert_place (place, 0, 0);
  assert_true (w->conflicts > 0);
  assert_int_equal (allocate_one (&r, false, &place, &err), 0);
  assert_place (place, 0, 1);
}

/* Labels alone make no Pod of a RayCluster, and no Lease. */
static void
whose_pod_it_is_not_gets_no_place (void **state)
{
  static const struct
  {
    int replicas;
    const char *uid, *group, *owner, *says; /* owner: name in the Pod's owner reference */
  } cases[] = {
    { -1, CLUSTER_UID, "g", "c",
      "there is no RayCluster c in namespace ml, which the Pod's label ray.io/cluster names" },
    { 1, "another", "g", "c", "the Pod's owner is not the RayCluster c that is there now" },
    { 1, CLUSTER_UID, "other", "c", "RayCluster c has no worker group g, which the Pod's label ray.io/group names" },
    { 1, CLUSTER_UID, "g", "d", "the Pod has no owner reference to RayCluster c" },
  };
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);

  for (size_t i = 0; i < ARRAY_LEN (cases); i++)
    {
      cleanup_json cJSON *pod = make_worker ();
      struct error err = { "" };
      struct place place;

      w->replicas = cases[i].replicas;
      w->uid = cases[i].uid;
      w->group = cases[i].group;
      json_set_str (json_get (pod, "metadata", "ownerReferences")->child, "name", cases[i].owner);
      assert_int_equal (allocate (&r, pod, false, &place, &err), -ENOENT);
      if (strstr (err.message, cases[i].says) == NULL)
        fail_msg ("%s", err.message);
    }
  assert_int_equal (w->posts, 0);
}

/* Of a Pod whose chips somebody changed, or that was made of a template of before. */
static void
a_pod_of_another_shape_gets_no_place_and_takes_none (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  cleanup_json cJSON *other = make_worker ();
  struct error err = { "" };
  struct place place;

  edit (other, "[{'op': 'replace', 'path': '/spec/containers/0/resources/limits/google.com~1tpu', 'value': '8'}]");
  for (int host = 0; host < 4; host++)
    {
      assert_int_equal (allocate_one (&r, false, &place, &err), 0);
      assert_place (place, 0, host);
      assert_int_equal (allocate (&r, other, false, &place, &err), -ENOENT);
      assert_non_null (strstr (err.message, "slices of 2 hosts, but the template of group g of RayCluster c makes "
                                            "slices of 4"));
    }
  assert_int_equal (allocate_one (&r, false, &place, &err), -EAGAIN);
}

/* numOfHosts of a manifest that forgot it is no number of hosts of the slice. */
static void
the_template_tells_the_hosts (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  struct error err = { "" };
  struct place place;

  w->topology = "4x4";
  w->hosts = 1;
  w->replicas = 4;
  for (int host = 0; host < 4; host++)
    {
      assert_int_equal (allocate_one (&r, false, &place, &err), 0);
      assert_place (place, 0, host);
    }
  w->topology = "2x4";
  assert_int_equal (allocate_one (&r, false, &place, &err), -ENOENT);
}

static void
missing_rights_are_no_reason_to_try_again (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  struct error err = { "" };
  struct place place;

  w->refuse = 403;
  assert_int_equal (allocate_one (&r, false, &place, &err), -EACCES);
  assert_non_null (strstr (err.message, "403"));
}

static void
add_lease (struct world *w, const char *name, const char *written, const char *reserved)
{
  cJSON *lease = json_push_obj (w->leases), *metadata = json_obj (lease, "metadata");

  json_set_str (metadata, "name", name);
  json_set_str (json_obj (metadata, "annotations"), "ray-tpu-operator/reserved-places", reserved);
  json_set_str (json_obj (lease, "spec"), "renewTime", written);
}

static void
leases_that_others_left_behind_are_swept (void **state)
{
  static const char old[] = "2020-01-01T00:00:00.000000Z";
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  struct error err = { "" };
  struct place place;
  char now[CLOCK_RFC3339_MS_SIZE];

  clock_format_rfc3339_micro (clock_wall_ms (), now);
  add_lease (w, "idle", old, "{}");
  add_lease (w, "expired", old, "{\"0.1\":1577836800000}");
  add_lease (w, "reserved", old, "{\"0.1\":9000000000000}");
  add_lease (w, "in-use", now, "{}");
  assert_int_equal (allocate_one (&r, false, &place, &err), 0);
  assert_null (find_lease (w, "idle"));
  assert_null (find_lease (w, "expired"));
  assert_non_null (find_lease (w, "reserved"));
  assert_non_null (find_lease (w, "in-use"));
  assert_non_null (find_lease (w, "places.ml.c.g." CLUSTER_UID));
}

static size_t
lease_count (struct world *w)
{
  int count;

  pthread_mutex_lock (&w->lock);
  count = cJSON_GetArraySize (w->leases);
  pthread_mutex_unlock (&w->lock);
  return (size_t) count;
}

static void
a_lease_goes_when_its_pods_are_there (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start_idle (w, 60000, 1);
  struct error err = { "" };
  struct place place;

  for (int host = 0; host < 2; host++)
    {
      assert_int_equal (allocate_one (&r, false, &place, &err), 0);
      assert_place (place, 0, host);
      assert_int_equal (lease_count (w), 1);
      settle (w, &place);
      wait_for (lease_count (w) == 0);
    }
}

static bool
nothing_is_reserved (struct world *w)
{
  bool empty;

  pthread_mutex_lock (&w->lock);
  empty = text_eq (json_str (w->leases->child, "metadata", "annotations", "ray-tpu-operator/reserved-places"), "{}");
  pthread_mutex_unlock (&w->lock);
  return empty;
}

static void
a_pod_that_came_and_went_leaves_no_reservation_behind (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  struct error err = { "" };
  struct place place;

  for (int host = 0; host < 4; host++)
    {
      assert_int_equal (allocate_one (&r, false, &place, &err), 0);
      settle (w, &place);
    }
  wait_for (nothing_is_reserved (w));
  pthread_mutex_lock (&w->lock);
  cJSON_DeleteItemFromArray (w->pods, 1);
  pthread_mutex_unlock (&w->lock);
  assert_int_equal (allocate_one (&r, false, &place, &err), 0);
  assert_place (place, 0, 1);
}

/* ---- the handler ---- */

static int
mutate (struct replica *r, const cJSON *pod, bool strict, struct admission_verdict *verdict, struct error *err)
{
  struct admission_policy policy
      = { .tpu = tpu_default_options, .ray = &ray_default_options, .allocator = r->allocator };
  const struct admission_request request = { .uid = "u",
                                             .group = "",
                                             .kind = "Pod",
                                             .subresource = "",
                                             .operation = "CREATE",
                                             .namespace = "ml",
                                             .name = "",
                                             .object = pod };

  policy.tpu.strict = strict;
  return admission_mutate_pod (&policy, &request, verdict, err);
}

static void
the_pod_is_told_its_place_and_keeps_it (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);

  for (int host = 0; host < 4; host++)
    {
      cJSON *pod = make_worker ();
      cleanup_verdict struct admission_verdict v = { 0 }, again = { 0 };
      struct error err = { "" };
      char id[16];

      snprintf (id, sizeof (id), "%d", host);
      assert_int_equal (mutate (&r, pod, false, &v, &err), 0);
      assert_int_equal (json_patch_apply (pod, v.patch, &err), 0);
      assert_string_equal (json_str (pod, "metadata", "annotations", TPU_ANNOTATION_REPLICA_INDEX), "0");
      assert_string_equal (json_str (pod, "metadata", "annotations", TPU_ANNOTATION_HOST_INDEX), id);
      assert_string_equal (env_of (pod, "TPU_WORKER_ID"), id);
      assert_string_equal (env_of (pod, "TPU_NAME"), "g-0");
      assert_int_equal (cJSON_GetArraySize (v.warnings), 0);
      assert_int_equal (mutate (&r, pod, false, &again, &err), 0); /* reinvoked: nothing to add */
      assert_int_equal (cJSON_GetArraySize (again.patch), 0);
      store_pod (w, pod);
    }
}

static void
claim (cJSON *pod, const char *host, const char *until)
{
  cJSON *annotations = json_obj (json_get (pod, "metadata"), "annotations");

  json_set_str (annotations, TPU_ANNOTATION_REPLICA_INDEX, "0");
  json_set_str (annotations, TPU_ANNOTATION_HOST_INDEX, host);
  if (until != NULL)
    json_set_str (annotations, TPU_ANNOTATION_RESERVED_UNTIL, until);
}

/* A template that was copied from a Pod. */
static void
a_place_in_the_template_counts_for_nothing (void **state)
{
  static const char *const untils[] = { NULL, "1", "9000000000000", "x" };
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  cleanup_json cJSON *late = make_worker ();
  cleanup_verdict struct admission_verdict never = { 0 };
  struct error err = { "" };

  for (int host = 0; host < 4; host++)
    {
      cJSON *pod = make_worker ();
      cleanup_verdict struct admission_verdict v = { 0 };
      char id[16];

      snprintf (id, sizeof (id), "%d", host);
      claim (pod, "1", untils[host]);
      assert_int_equal (mutate (&r, pod, true, &v, &err), 0);
      assert_int_equal (json_patch_apply (pod, v.patch, &err), 0);
      assert_string_equal (json_str (pod, "metadata", "annotations", TPU_ANNOTATION_HOST_INDEX), id);
      assert_string_equal (env_of (pod, "TPU_WORKER_ID"), id);
      store_pod (w, pod);
    }
  claim (late, "1", "1");
  assert_int_equal (mutate (&r, late, false, &never, &err), 0);
  assert_true (never.allowed);
  assert_int_equal (json_patch_apply (late, never.patch, &err), 0);
  assert_null (env_of (late, "TPU_WORKER_ID"));
  assert_int_equal (cJSON_GetArraySize (json_get (late, "metadata", "annotations")), 0);
}

static void
a_pod_that_fails_at_once_leaves_no_reservation_behind (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  cleanup_json cJSON *next = make_worker (), *late = make_worker ();
  cleanup_verdict struct admission_verdict v = { 0 }, full = { 0 };
  struct error err = { "" };

  for (int host = 0; host < 4; host++)
    {
      cJSON *pod = make_worker ();
      cleanup_verdict struct admission_verdict own = { 0 };

      assert_int_equal (mutate (&r, pod, false, &own, &err), 0);
      assert_int_equal (json_patch_apply (pod, own.patch, &err), 0);
      store_pod (w, pod);
    }
  json_set_str (json_obj (cJSON_GetArrayItem (w->pods, 3), "status"), "phase", "Failed");
  assert_int_equal (mutate (&r, next, false, &v, &err), 0);
  assert_true (v.allowed);
  assert_int_equal (json_patch_apply (next, v.patch, &err), 0);
  assert_string_equal (env_of (next, "TPU_WORKER_ID"), "3");
  assert_int_equal (mutate (&r, late, false, &full, &err), 0);
  assert_false (full.allowed); /* the successor's reservation is another */
}

static void
a_pod_that_finds_no_place (void **state)
{
  struct world *w = *state;
  cleanup_replica struct replica r = replica_start (w, 60000);
  cleanup_json cJSON *pod = make_worker ();
  cleanup_verdict struct admission_verdict later = { 0 }, never = { 0 }, strict = { 0 }, failed = { 0 };
  struct error err = { "" };
  struct place place;

  for (int i = 0; i < 4; i++)
    assert_int_equal (allocate_one (&r, false, &place, &err), 0);
  assert_int_equal (mutate (&r, pod, false, &later, &err), 0);
  assert_false (later.allowed); /* a reservation may expire: its controller is to try again */
  assert_int_equal (later.code, 503);

  for (int host = 0; host < 4; host++)
    settle (w, &(struct place){ 0, host });
  assert_int_equal (mutate (&r, pod, false, &never, &err), 0);
  assert_true (never.allowed); /* it is one too many, and told nothing of a place */
  assert_int_equal (cJSON_GetArraySize (never.warnings), 2);
  assert_non_null (strstr (never.warnings->child->valuestring, "has no place in a slice"));
  assert_int_equal (json_patch_apply (pod, never.patch, &err), 0);
  assert_null (env_of (pod, "TPU_WORKER_ID"));
  assert_null (json_get (pod, "metadata", "annotations"));
  assert_int_equal (mutate (&r, pod, true, &strict, &err), 0);
  assert_false (strict.allowed);
  assert_int_equal (strict.code, 422);
  assert_non_null (strstr (strict.message, "has no place in a slice"));

  w->refuse = 403;
  assert_true (mutate (&r, pod, false, &failed, &err) < 0);
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown (two_replicas_and_many_creators_fill_every_place_once, begin, end),
    cmocka_unit_test_setup_teardown (a_pod_takes_the_place_of_the_one_that_is_gone, begin, end),
    cmocka_unit_test_setup_teardown (a_reservation_whose_pod_never_came_expires, begin, end),
    cmocka_unit_test_setup_teardown (a_dry_run_writes_nothing, begin, end),
    cmocka_unit_test_setup_teardown (a_write_whose_answer_was_lost_counts, begin, end),
    cmocka_unit_test_setup_teardown (whose_pod_it_is_not_gets_no_place, begin, end),
    cmocka_unit_test_setup_teardown (a_pod_of_another_shape_gets_no_place_and_takes_none, begin, end),
    cmocka_unit_test_setup_teardown (the_template_tells_the_hosts, begin, end),
    cmocka_unit_test_setup_teardown (missing_rights_are_no_reason_to_try_again, begin, end),
    cmocka_unit_test_setup_teardown (leases_that_others_left_behind_are_swept, begin, end),
    cmocka_unit_test_setup_teardown (a_lease_goes_when_its_pods_are_there, begin, end),
    cmocka_unit_test_setup_teardown (a_pod_that_came_and_went_leaves_no_reservation_behind, begin, end),
    cmocka_unit_test_setup_teardown (the_pod_is_told_its_place_and_keeps_it, begin, end),
    cmocka_unit_test_setup_teardown (a_place_in_the_template_counts_for_nothing, begin, end),
    cmocka_unit_test_setup_teardown (a_pod_that_fails_at_once_leaves_no_reservation_behind, begin, end),
    cmocka_unit_test_setup_teardown (a_pod_that_finds_no_place, begin, end),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
