/* book.c - the places of a group as the API server has them: a Lease, the pods, the RayCluster. */
#include "admission/book.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "admission/allocate.h"

#define ANNOTATION_RESERVED "ray-tpu-operator/reserved-places"
#define ANNOTATION_WRITTEN_BY "ray-tpu-operator/written-by" /* nonce of the last write */
#define LABEL_PLACES "ray-tpu-operator/places"              /* on every Lease of ours */

#define LEASE_PAGE "500"
#define POD_PAGE "50" /* metadata alone can be a MiB: annotations and managedFields */
/* All Pods are in one of these. What has ended counts otherwise, and without its status only the selector tells. */
#define NOT_ENDED "status.phase!=Failed,status.phase!=Succeeded"
#define ENDED "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
#define SWEEP_MAX 20

/* `rest` is "", "/NAME" or a query. */
static char *
leases_path (const struct book_of *of, const char *rest)
{
  return xasprintf ("/apis/coordination.k8s.io/v1/namespaces/%s/leases%s", of->lease_namespace, rest);
}

void
book_open (struct book *b, const struct book_of *of, int64_t deadline_ms)
{
  cleanup_free char *slashed = xasprintf ("/%s", of->name);
  uint64_t random = 0;

  *b = (struct book){ .of = *of, .deadline_ms = deadline_ms };
  b->path = leases_path (of, slashed);
  if (getrandom (&random, sizeof (random), 0) != (ssize_t) sizeof (random))
    random = (uint64_t) clock_mono_us () ^ ((uint64_t) getpid () << 40);
  snprintf (b->nonce, sizeof (b->nonce), "%016" PRIx64, random);
}

void
book_free (struct book *b)
{
  free (b->path);
  cJSON_Delete (b->lease);
  places_free (&b->places);
}

/* What the caller can do about a call that failed. */
static int
explain (const struct kube_response *response, struct error *err)
{
  bool refused = response->status == 401 || response->status == 403 || response->status == 422;

  return error_set (err, refused ? EACCES : EAGAIN, "%s", response->error.message);
}

static int
ask (struct book *b, struct kube_request request, struct kube_response *response, struct error *err)
{
  request.timeout_ms = b->deadline_ms - clock_mono_ms ();
  if (request.timeout_ms <= 0)
    return error_set (err, EAGAIN, "the API server took too long");
  kube_do (b->of.client, &request, response);
  return 0;
}

static int
call (struct book *b, enum kube_verb verb, const char *path, const cJSON *body, struct kube_response *response,
      struct error *err)
{
  cleanup_free char *text = body != NULL ? json_print (body) : NULL;
  cleanup_free char *where = xstrdup (path);

  return ask (b, (struct kube_request){ .verb = verb, .path = where, .body = text }, response, err);
}

bool
book_is_ours (const struct book *b)
{
  return text_eq (json_str (b->lease, "metadata", "annotations", ANNOTATION_WRITTEN_BY), b->nonce);
}

static int
read_lease (struct book *b, struct error *err)
{
  cleanup_response struct kube_response response = { 0 };
  int ret = call (b, KUBE_GET, b->path, NULL, &response, err);

  cJSON_Delete (take_ptr (b->lease));
  if (ret < 0)
    return ret;
  if (!kube_ok (&response))
    return response.status == 404 ? 0 : explain (&response, err);
  b->lease = take_ptr (response.body);
  return 0;
}

/* A broken list of reservations is dropped: it is ours alone, and the pods tell their places themselves. */
static void
note_reservations (struct places *places, const cJSON *lease, const char *name)
{
  const char *text = json_str (lease, "metadata", "annotations", ANNOTATION_RESERVED);
  struct error err = { "" };

  if (text != NULL && places_read (places, text, clock_wall_ms (), &err) < 0)
    log_warn ("reservations of TPU places are broken and forgotten", LF_STR ("lease", name),
              LF_STR ("error", err.message));
}

static int64_t
index_of (const cJSON *map, const char *key)
{
  const char *text = json_str (map, key);
  int64_t index;

  return text != NULL && text_to_int (text, 0, INT32_MAX, &index) == 0 ? index : -1;
}

/* Never one index from here and the other from there, as for tpu_inject. */
struct place_entry
book_place_of (const cJSON *pod)
{
  const cJSON *labels = json_get (pod, "metadata", "labels"), *annotations = json_get (pod, "metadata", "annotations");
  const char *until = json_str (annotations, TPU_ANNOTATION_RESERVED_UNTIL);
  struct place_entry e = { .holder = PLACE_RESERVED };

  if (json_get (labels, RAY_LABEL_REPLICA_INDEX) != NULL || json_get (labels, RAY_LABEL_HOST_INDEX) != NULL)
    e.place = (struct place){ index_of (labels, RAY_LABEL_REPLICA_INDEX), index_of (labels, RAY_LABEL_HOST_INDEX) };
  else
    e.place = (struct place){ index_of (annotations, TPU_ANNOTATION_REPLICA_INDEX),
                              index_of (annotations, TPU_ANNOTATION_HOST_INDEX) };
  text_to_int (log_nonnull (until), 0, INT64_MAX, &e.expires_ms);
  return e;
}

static void
note_pod (struct book *b, const cJSON *pod, bool ended)
{
  const struct place_entry e = book_place_of (pod);
  bool leaving = ended || json_str (pod, "metadata", "deletionTimestamp") != NULL;

  places_note (&b->places, e.place, leaving ? PLACE_LEAVING : PLACE_LIVE, e.expires_ms);
}

static char *
page_path (const struct book *b, const char *fields, const char *token)
{
  cleanup_free char *selector = xasprintf (RAY_LABEL_CLUSTER "=%s," RAY_LABEL_GROUP "=%s", b->of.cluster, b->of.group);
  cleanup_free char *escaped = kube_escape (selector), *escaped_fields = kube_escape (fields);
  cleanup_free char *after = token != NULL ? kube_escape (token) : NULL;

  return xasprintf ("/api/v1/namespaces/%s/pods?limit=" POD_PAGE "&labelSelector=%s&fieldSelector=%s%s%s",
                    b->of.namespace, escaped, escaped_fields, after ? "&continue=" : "", log_nonnull (after));
}

/* Without a resourceVersion the list is as new as the moment it was asked for. */
static int
read_pods_of (struct book *b, bool ended, struct error *err)
{
  cleanup_free char *token = NULL;

  do
    {
      cleanup_response struct kube_response response = { 0 };
      cleanup_free char *path = page_path (b, ended ? ENDED : NOT_ENDED, token);
      int ret = ask (b, (struct kube_request){ .verb = KUBE_GET, .path = path, .metadata_only = true }, &response, err);
      const char *next;
      const cJSON *pod;

      if (ret < 0)
        return ret;
      if (!kube_ok (&response))
        return explain (&response, err);
      cJSON_ArrayForEach (pod, json_get (response.body, "items"))
        note_pod (b, pod, ended);
      next = json_str (response.body, "metadata", "continue");
      free (take_ptr (token));
      token = next != NULL && next[0] != '\0' ? xstrdup (next) : NULL;
    }
  while (token != NULL);
  return 0;
}

/* In this order: a Pod that ends meanwhile is in both lists and holds its place. */
static int
read_pods (struct book *b, struct error *err)
{
  int ret = read_pods_of (b, false, err);

  return ret < 0 ? ret : read_pods_of (b, true, err);
}

static int
not_its_pod (const struct book *b, const struct kube_response *response, const struct ray_group *group,
             struct error *err)
{
  if (response->status == 404)
    return error_set (err, ENOENT,
                      "there is no RayCluster %s in namespace %s, which the Pod's label " RAY_LABEL_CLUSTER
                      " names: no place in a slice can be given to it",
                      b->of.cluster, b->of.namespace);
  if (!text_eq (json_str (response->body, "metadata", "uid"), b->of.owner_uid))
    return error_set (err, ENOENT,
                      "the Pod's owner is not the RayCluster %s that is there now: no place in a slice can be "
                      "given to it",
                      b->of.cluster);
  if (group == NULL)
    return error_set (err, ENOENT,
                      "RayCluster %s has no worker group %s, which the Pod's label " RAY_LABEL_GROUP
                      " names: no place in a slice can be given to it",
                      b->of.cluster, b->of.group);
  return 0;
}

/* As the topology has them, else as numOfHosts has. */
static int64_t
hosts_of (const struct ray_group *group, const struct tpu_options *options)
{
  struct tpu_request r;

  return tpu_request_read (&r, group->template, options, NULL) == 0 && r.chips > 0 && r.hosts > 0 ? r.hosts
                                                                                                  : group->hosts;
}

int
book_find_group (struct book *b, const struct tpu_options *options, struct error *err)
{
  cleanup_response struct kube_response response = { 0 };
  cleanup_cluster struct ray_cluster cluster = { 0 };
  cleanup_free char *path = kube_object_path ("/apis/ray.io/v1", b->of.namespace, "rayclusters", b->of.cluster);
  const struct ray_group *group = NULL;
  int ret = call (b, KUBE_GET, path, NULL, &response, err);

  if (ret < 0)
    return ret;
  if (!kube_ok (&response) && response.status != 404)
    return explain (&response, err);
  if (kube_ok (&response) && ray_cluster_decode (&cluster, response.body, b->of.namespace, NULL) == 0)
    group = ray_cluster_group (&cluster, b->of.group);
  ret = not_its_pod (b, &response, group, err);
  if (ret < 0 || group == NULL)
    return ret;
  /* What numOfHosts says and what the topology has need not agree; pods are what KubeRay counts. */
  b->places.hosts = hosts_of (group, options);
  b->places.replicas = (group->replicas * group->hosts + b->places.hosts - 1) / b->places.hosts;
  return 0;
}

static size_t
count_reserved (const struct places *places)
{
  size_t count = 0;

  for (size_t i = 0; i < places->count; i++)
    count += places->entries[i].holder == PLACE_RESERVED;
  return count;
}

size_t
book_reserved (const struct book *b)
{
  return count_reserved (&b->places);
}

int
book_read (struct book *b, struct error *err)
{
  const struct places none = { .hosts = b->places.hosts, .replicas = b->places.replicas };
  int ret = read_lease (b, err);

  if (ret < 0 || book_is_ours (b))
    return ret;
  places_free (&b->places);
  b->places = none;
  note_reservations (&b->places, b->lease, b->of.name);
  b->reserved = book_reserved (b);
  return read_pods (b, err);
}

static cJSON *
make_lease (struct book *b)
{
  cJSON *lease = b->lease != NULL ? cJSON_Duplicate (b->lease, true) : cJSON_CreateObject ();
  cJSON *metadata = json_obj (lease, "metadata"), *annotations = json_obj (metadata, "annotations");
  cleanup_free char *reserved = places_print (&b->places);
  char now[CLOCK_RFC3339_MS_SIZE];

  json_set_str (lease, "apiVersion", "coordination.k8s.io/v1");
  json_set_str (lease, "kind", "Lease");
  json_set_str (metadata, "name", b->of.name);
  json_set_str (metadata, "namespace", b->of.lease_namespace);
  json_set_str (json_obj (metadata, "labels"), LABEL_PLACES, "true");
  clock_format_rfc3339_micro (clock_wall_ms (), now);
  json_set_str (json_obj (lease, "spec"), "renewTime", now);
  json_set_str (annotations, ANNOTATION_RESERVED, reserved);
  json_set_str (annotations, ANNOTATION_WRITTEN_BY, b->nonce);
  return lease;
}

int
book_write (struct book *b, struct error *err)
{
  cleanup_json cJSON *lease = make_lease (b);
  cleanup_response struct kube_response response = { 0 };
  cleanup_free char *collection = leases_path (&b->of, "");
  bool new = b->lease == NULL;
  int ret = call (b, new ? KUBE_POST : KUBE_PUT, new ? collection : b->path, lease, &response, err);

  if (ret < 0 || kube_ok (&response))
    return ret;
  if (response.status == 409 || (response.status == 404 && !new))
    return 1;
  return explain (&response, err);
}

/* ---- Leases that nobody needs any more ---- */

/* Holds no reservation, and nobody can be about to write it. */
static bool
is_idle (const cJSON *lease, int64_t idle_ms)
{
  const char *text = json_str (lease, "spec", "renewTime");
  cleanup_places struct places places = { 0 };
  int64_t written_ms;

  note_reservations (&places, lease, log_nonnull (json_str (lease, "metadata", "name")));
  return count_reserved (&places) == 0 && text != NULL && clock_parse_rfc3339 (text, &written_ms) == 0
         && clock_wall_ms () - written_ms > idle_ms;
}

/* In the version that was read: who has written it meanwhile keeps it. */
static int
delete_lease (struct book *b, const cJSON *lease)
{
  cleanup_response struct kube_response response = { 0 };
  cleanup_json cJSON *options = cJSON_CreateObject ();
  cleanup_free char *slashed = xasprintf ("/%s", json_str (lease, "metadata", "name"));
  cleanup_free char *path = leases_path (&b->of, slashed);

  json_set_str (options, "apiVersion", "v1");
  json_set_str (options, "kind", "DeleteOptions");
  json_set_copy (json_obj (options, "preconditions"), "resourceVersion",
                 json_get (lease, "metadata", "resourceVersion"));
  return call (b, KUBE_DELETE, path, options, &response, NULL) == 0 && (kube_ok (&response) || response.status == 404)
             ? 0
             : -EAGAIN;
}

bool
book_discard (struct book *b, int64_t idle_ms)
{
  return b->lease == NULL || (is_idle (b->lease, idle_ms) && delete_lease (b, b->lease) == 0);
}

void
book_sweep (struct book *b, int64_t idle_ms)
{
  cleanup_response struct kube_response response = { 0 };
  cleanup_free char *path = leases_path (&b->of, "?limit=" LEASE_PAGE "&labelSelector=ray-tpu-operator%2Fplaces");
  const cJSON *lease;
  int deleted = 0;

  if (call (b, KUBE_GET, path, NULL, &response, NULL) < 0)
    return;
  cJSON_ArrayForEach (lease, json_get (response.body, "items"))
    {
      if (deleted == SWEEP_MAX || !is_idle (lease, idle_ms))
        continue;
      delete_lease (b, lease);
      deleted++;
    }
}
