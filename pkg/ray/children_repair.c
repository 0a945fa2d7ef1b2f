/* How a live object is brought back: what we wish is imposed on a copy of it, and the difference is the patch. What is
 * not imposed stays. */
#include "ray/children.h"

#include <string.h>

#include "ray/ray_internal.h"

/* ---- the difference of two objects as a merge patch (RFC 7386); NULL when there is none ---- */

static cJSON *
merge_difference (const cJSON *from, const cJSON *to)
{
  cJSON *patch = cJSON_CreateObject ();
  const cJSON *item;

  cJSON_ArrayForEach (item, from)
    if (json_get (to, item->string) == NULL)
      json_set (patch, item->string, cJSON_CreateNull ());
  cJSON_ArrayForEach (item, to)
    {
      const cJSON *old = json_get (from, item->string);

      if (json_equal (old, item))
        continue;
      if (cJSON_IsObject (old) && cJSON_IsObject (item))
        {
          cJSON *inner = merge_difference (old, item);

          if (inner != NULL)
            json_set (patch, item->string, inner);
        }
      else
        json_set_copy (patch, item->string, item);
    }
  if (patch->child == NULL)
    {
      cJSON_Delete (patch);
      return NULL;
    }
  return patch;
}

/* Whether everything of `wish` is in `live`; the server may have added members, but no elements. */
static bool
covers (const cJSON *live, const cJSON *wish)
{
  const cJSON *item;
  int i = 0;

  if (cJSON_IsObject (wish))
    {
      cJSON_ArrayForEach (item, wish)
        if (!covers (json_get (live, item->string), item))
          return false;
      return cJSON_IsObject (live);
    }
  if (!cJSON_IsArray (wish))
    return json_equal (live, wish);
  if (!cJSON_IsArray (live) || cJSON_GetArraySize (live) != cJSON_GetArraySize (wish))
    return false;
  cJSON_ArrayForEach (item, wish)
    if (!covers (cJSON_GetArrayItem (live, i++), item))
      return false;
  return true;
}

/* ---- metadata ---- */

static bool
is_controller (const cJSON *reference)
{
  return json_bool (reference, false, "controller");
}

/* Our reference, and beside it those of others that do not claim to be the controller. */
static void
impose_owner (cJSON *meta, const struct ray_child *child)
{
  const cJSON *wish = cJSON_GetArrayItem (json_get (child->object, "metadata", "ownerReferences"), 0), *item;
  cJSON *list;
  bool there = false;

  if (wish == NULL)
    return;
  list = cJSON_CreateArray ();
  cJSON_ArrayForEach (item, json_get (meta, "ownerReferences"))
    if (text_eq (json_str (item, "uid"), json_str (wish, "uid")))
      {
        there = true;
        json_push (list, cJSON_Duplicate (covers (item, wish) ? item : wish, true));
      }
    else if (!is_controller (item))
      json_push (list, cJSON_Duplicate (item, true));
  if (!there)
    json_push (list, cJSON_Duplicate (wish, true));
  json_set (meta, "ownerReferences", list);
}

/* A claim that is to outlive the cluster must not carry its reference. */
static void
release (cJSON *meta)
{
  cJSON *list = json_get (meta, "ownerReferences");

  for (cJSON *item = list != NULL ? list->child : NULL, *next; item != NULL; item = next)
    {
      next = item->next;
      if (is_controller (item) && text_eq (json_str (item, "kind"), "RayCluster"))
        cJSON_Delete (cJSON_DetachItemViaPointer (list, item));
    }
  if (list != NULL && list->child == NULL)
    json_drop (meta, "ownerReferences");
}

static void
impose_metadata (cJSON *target, const struct ray_child *child)
{
  static const char *const maps[] = { "labels", "annotations" };
  cJSON *meta = json_obj (target, "metadata");

  for (size_t i = 0; i < ARRAY_LEN (maps); i++)
    {
      const cJSON *wish = json_get (child->object, "metadata", maps[i]);

      if (wish != NULL && wish->child != NULL)
        json_merge_flat (json_obj (meta, maps[i]), wish, true);
    }
  if (child->keep)
    release (meta);
  else
    impose_owner (meta, child);
}

/* ---- Services ---- */

static bool
same_port (const cJSON *a, const cJSON *b)
{
  const char *p = json_str (a, "protocol"), *q = json_str (b, "protocol");

  return json_int (a, 0, "port") == json_int (b, 0, "port")
         && strcmp (p != NULL ? p : "TCP", q != NULL ? q : "TCP") == 0;
}

/* The live port that a wished one is: the one of its name, else of its number. */
static const cJSON *
find_port (const cJSON *live, const cJSON *wish)
{
  const cJSON *found = json_find (live, "name", json_str (wish, "name")), *item;

  if (found != NULL)
    return found;
  cJSON_ArrayForEach (item, live)
    if (same_port (item, wish))
      return item;
  return NULL;
}

/* Some types of Service have node ports; those that the cluster gave are kept, as firewalls and clients know them. */
static bool
has_node_ports (const cJSON *wish)
{
  const char *type = json_str (wish, "type");

  return text_eq (type, "NodePort") || text_eq (type, "LoadBalancer");
}

/* The wished ports as the server would store them beside what it gave to the live ones. */
static void
impose_ports (cJSON *spec, const cJSON *wish)
{
  const cJSON *live = json_get (spec, "ports"), *item;
  cJSON *ports = cJSON_CreateArray ();

  cJSON_ArrayForEach (item, json_get (wish, "ports"))
    {
      const cJSON *old = find_port (live, item);
      cJSON *port = json_push (ports, cJSON_Duplicate (item, true));

      if (json_str (port, "protocol") == NULL)
        json_set_str (port, "protocol", "TCP");
      if (json_get (port, "targetPort") == NULL)
        json_set_int (port, "targetPort", json_int (port, 0, "port"));
      if (json_get (port, "nodePort") == NULL && has_node_ports (wish))
        json_set_copy (port, "nodePort", json_get (old, "nodePort"));
    }
  json_set (spec, "ports", ports);
}

/* clusterIP cannot be changed in a Service that has one, and clients know it: whatever we would rather have, it stays
 * (kuberay#2088, #1105). */
static void
impose_service (cJSON *target, const struct ray_child *child)
{
  static const char *const apart[] = { "selector", "ports", "clusterIP", "clusterIPs" };
  const cJSON *wish = json_get (child->object, "spec"), *item;
  cJSON *spec = json_obj (target, "spec");

  cJSON_ArrayForEach (item, wish)
    if (text_index (item->string, apart, ARRAY_LEN (apart)) < 0 && !covers (json_get (spec, item->string), item))
      json_set_copy (spec, item->string, item);
  json_set_copy (spec, "selector", json_get (wish, "selector"));
  if (cJSON_GetArraySize (json_get (wish, "ports")) > 0)
    impose_ports (spec, wish);
  else
    json_drop (spec, "ports");
}

/* ---- the others: whole members ---- */

/* `section` NULL: of the object itself. A member we do not wish is dropped: somebody has added it. */
static const struct whole
{
  const char *section, *member;
  enum ray_child_kind kind;
  bool optional; /* without our wish the live value stays */
} wholes[] = {
  { NULL, "rules", RAY_CHILD_ROLE, false },
  { NULL, "subjects", RAY_CHILD_ROLE_BINDING, false },
  { "spec", "rules", RAY_CHILD_INGRESS, false },
  { "spec", "tls", RAY_CHILD_INGRESS, false },
  { "spec", "ingressClassName", RAY_CHILD_INGRESS, true },
  { "spec", "podSelector", RAY_CHILD_NETWORK_POLICY, false },
  { "spec", "policyTypes", RAY_CHILD_NETWORK_POLICY, false },
  { "spec", "ingress", RAY_CHILD_NETWORK_POLICY, false },
  { "spec", "egress", RAY_CHILD_NETWORK_POLICY, false },
};

static void
impose_whole (cJSON *target, const struct ray_child *child)
{
  for (size_t i = 0; i < ARRAY_LEN (wholes); i++)
    {
      const struct whole *w = &wholes[i];
      const cJSON *wish;
      cJSON *into;

      if (w->kind != child->kind)
        continue;
      wish = json_get (w->section ? json_get (child->object, w->section) : child->object, w->member);
      into = w->section ? json_obj (target, w->section) : target;
      if (wish != NULL)
        json_set_copy (into, w->member, wish);
      else if (!w->optional)
        json_drop (into, w->member);
    }
}

cJSON *
ray_child_repair (const struct ray_child *child, const cJSON *live)
{
  cleanup_json cJSON *target = cJSON_Duplicate (live, true);

  if (child->external)
    return NULL;
  impose_metadata (target, child);
  if (child->kind == RAY_CHILD_SERVICE)
    impose_service (target, child);
  else
    impose_whole (target, child);
  return merge_difference (live, target);
}

/* ---- whose it is, and what cannot be mended ---- */

bool
ray_child_is_ours (const struct ray_child *child, const struct ray_cluster *cluster, const cJSON *live)
{
  const cJSON *item;

  cJSON_ArrayForEach (item, json_get (live, "metadata", "ownerReferences"))
    if (is_controller (item))
      return text_eq (json_str (item, "uid"), cluster->uid);
  return child->kind == RAY_CHILD_PVC
         && text_eq (json_str (live, "metadata", "labels", RAY_LABEL_CLUSTER), cluster->name);
}

static bool
same_quantity (const cJSON *a, const cJSON *b)
{
  struct quantity p, q;

  return ray_quantity (&p, a, NULL) == 0 && ray_quantity (&q, b, NULL) == 0 && p.nano == q.nano;
}

static char *
complain_about_claim (const cJSON *wish, const cJSON *live)
{
  const cJSON *size = json_get (wish, "spec", "resources", "requests", "storage");
  const cJSON *has = json_get (live, "spec", "resources", "requests", "storage");
  const char *class = json_str (wish, "spec", "storageClassName");

  if (!same_quantity (size, has))
    {
      cleanup_free char *a = json_print (has), *b = json_print (size);

      return xasprintf ("its size is %s, but the RayCluster asks for %s: resize the claim, or change "
                        "spec.gcsFaultToleranceOptions.storage.size",
                        a, b);
    }
  if (class != NULL && !text_eq (class, json_str (live, "spec", "storageClassName")))
    return xasprintf ("its storage class is \"%s\", but the RayCluster asks for \"%s\": the class of a claim cannot be "
                      "changed",
                      log_nonnull (json_str (live, "spec", "storageClassName")), class);
  if (!json_equal (json_get (wish, "spec", "accessModes"), json_get (live, "spec", "accessModes")))
    return xstrdup ("its access modes are not those the RayCluster asks for: they cannot be changed");
  return NULL;
}

char *
ray_child_complaint (const struct ray_child *child, const cJSON *live)
{
  if (child->external)
    return NULL;
  if (child->kind == RAY_CHILD_PVC)
    return complain_about_claim (child->object, live);
  if (child->kind == RAY_CHILD_ROLE_BINDING
      && !json_equal (json_get (child->object, "roleRef"), json_get (live, "roleRef")))
    return xasprintf ("it binds %s \"%s\" instead of Role \"%s\", which cannot be changed: delete it, it is then made "
                      "anew",
                      log_nonnull (json_str (live, "roleRef", "kind")),
                      log_nonnull (json_str (live, "roleRef", "name")), json_str (child->object, "roleRef", "name"));
  return NULL;
}
