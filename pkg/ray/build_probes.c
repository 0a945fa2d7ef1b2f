/* Liveness and readiness of the Ray container (§3.6). A probe the user wrote is never touched. */
#include "ray/ray_internal.h"

/* Both timeouts of wget are in seconds; each healthz page says "success". The second is long because the answer of the
 * GCS and of Serve may be. */
#define WGET "wget --tries 1 -T %d -q -O- http://localhost:%d/%s | grep success"
#define WGET_FAST 2
#define WGET_SLOW 10

struct probe_times
{
  const char *field;
  int delay, failures;
};

static int
serve_port (const struct pod_build *b)
{
  return (int) json_int (json_find (json_get (b->ray, "ports"), "name", "serve"), RAY_PORT_SERVE, "containerPort");
}

static void
set_exec (cJSON *probe, const char *script)
{
  cJSON *command = json_arr (json_obj (probe, "exec"), "command");

  json_push_str (command, "bash");
  json_push_str (command, "-c");
  json_push_str (command, script);
}

static void
set_check (const struct pod_build *b, cJSON *probe, bool with_serve)
{
  int agent = ray_param_port (b->params, "dashboard-agent-listen-port", RAY_PORT_AGENT);
  cleanup_buf struct buf script = { 0 };

  if (ray_version_at_least (b->cluster, 2, 53) && !with_serve)
    {
      cJSON *get = json_obj (probe, "httpGet");

      json_set_str (get, "path", "/api/healthz");
      json_set_int (get, "port", agent);
      return;
    }
  buf_printf (&script, WGET, WGET_FAST, agent, "api/local_raylet_healthz");
  if (b->group->is_head)
    buf_printf (&script, " && " WGET, WGET_SLOW, ray_param_port (b->params, "dashboard-port", RAY_PORT_DASHBOARD),
                "api/gcs_healthz");
  if (with_serve)
    buf_printf (&script, " && " WGET, WGET_SLOW, serve_port (b), "-/healthz");
  set_exec (probe, buf_text (&script));
}

void
ray_add_probes (struct pod_build *b)
{
  static const struct probe_times probes[] = { { "livenessProbe", 30, 120 }, { "readinessProbe", 10, 10 } };
  bool serves = text_eq (b->cluster->origin_crd, "RayService") && !b->group->is_head;

  for (size_t i = 0; i < ARRAY_LEN (probes); i++)
    {
      /* A worker of a RayService is ready when Serve is, and unready at the first failure, so that no request is lost.
       */
      bool with_serve = serves && text_eq (probes[i].field, "readinessProbe");
      cJSON *probe;

      if (json_get (b->ray, probes[i].field) != NULL)
        continue;
      probe = json_obj (b->ray, probes[i].field);
      set_check (b, probe, with_serve);
      json_set_int (probe, "initialDelaySeconds", probes[i].delay);
      json_set_int (probe, "timeoutSeconds", b->group->is_head ? 5 : 2);
      json_set_int (probe, "periodSeconds", 5);
      json_set_int (probe, "successThreshold", 1);
      json_set_int (probe, "failureThreshold", with_serve ? 1 : probes[i].failures);
    }
}
