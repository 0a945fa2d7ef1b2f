/* The `ray start` line: golden strings of §3.3, defaults of §3.2. */
#include "test_ray.h"

/* Params and container resources alone, as upstream's own tests have it: no operator defaults. */
static void
test_container_resources_golden (void **state)
{
  static const struct
  {
    bool head;
    const char *params, *resources, *line;
  } rows[] = {
    { false, "{}", "limits: {nvidia.com/gpu: 1}", "ray start  --num-gpus=1 " },
    { false, "{}", "limits: {google.com/tpu: '4'}", "ray start  --resources='{\"TPU\":4}' " },
    { true, "{}", "limits: {nvidia.com/gpu: 1, aws.amazon.com/neuroncore: 4}",
      "ray start --head  --num-gpus=1  --resources='{\"neuron_cores\":4}' " },
    { true, "{}", "limits: {nvidia.com/gpu: 1, google.com/tpu: 8, aws.amazon.com/neuroncore: 4}",
      "ray start --head  --num-gpus=1  --resources='{\"neuron_cores\":4}' " },
    { true, "{resources: '\"{\"custom_resource\":2}\"'}", "limits: {aws.amazon.com/neuroncore: 4}",
      "ray start --head  --resources='{\"custom_resource\":2,\"neuron_cores\":4}' " },
    { true, "{resources: '{'}", "limits: {aws.amazon.com/neuroncore: 4}", "ray start --head  --resources={ " },
    { false, "{resources: '''{\"TPU\": 2}'''}", "limits: {google.com/tpu: 4}",
      "ray start  --resources='{\"TPU\": 2}' " },
    { false, "{resources: '{\"a\": \"text\"}'}", "limits: {google.com/tpu: 4}",
      "ray start  --resources={\"a\": \"text\"} " },
    { false, "{num-gpus: '7'}", "limits: {nvidia.com/gpu: 1}", "ray start  --num-gpus=7 " },
    { false, "{}", "limits: {nvidia.com/mig-1g.5gb: 2}", "ray start  --num-gpus=2 " },
    { false, "{}", "limits: {nvidia.com/mig-1g.5gbx: 2, amd.com/gpu: 0, xe.intel.com/gpu: 3}",
      "ray start  --num-gpus=3 " },
    { false, "{}", "limits: {cpu: 500m, memory: 1Gi}", "ray start  --memory=1073741824  --num-cpus=1 " },
    { false, "{}", "requests: {cpu: 3, memory: 1Gi}", "ray start  --num-cpus=3 " },
    { false, "{}", "{limits: {cpu: 8}, requests: {cpu: 3}}", "ray start  --num-cpus=8 " },
    { false, "{}", "limits: {cpu: 0, memory: 0, google.com/tpu: 0}", "ray start " },
    { false, "{}", "limits: {cpu: many, memory: [], google.com/tpu: -4}", "ray start " },
    { false, "{}", "requests: {google.com/tpu: 4}", "ray start " },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *params = yaml_one (rows[i].params), *resources = yaml_one (rows[i].resources);
      cleanup_free char *line = NULL;

      ray_params_add_container (params, resources);
      line = ray_params_render (params, rows[i].head);
      assert_string_equal (line, rows[i].line);
    }
}

static void
test_flags_and_values (void **state)
{
  static const struct
  {
    const char *params, *line;
  } rows[] = {
    { "{block: 'true', no-monitor: 'TRUE', head: 'false', x: 'False'}", "ray start  --block  --no-monitor " },
    { "{include-dashboard: 'false', log-color: 'true', include-log-monitor: 'False'}",
      "ray start  --include-dashboard=false  --include-log-monitor=False  --log-color=true " },
    { "{zeta: '1', alpha: 'b c', empty: ''}", "ray start  --alpha=b c  --empty=  --zeta=1 " },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *params = yaml_one (rows[i].params);
      cleanup_free char *line = ray_params_render (params, false);

      assert_string_equal (line, rows[i].line);
    }
}

#define WORKER_DEFAULTS_1                                                                                              \
  " --address=c-head-svc.default.svc.cluster.local:6379  --block  --dashboard-agent-listen-port=52365 "
#define METRICS " --metrics-export-port=8080 "

static void
test_whole_line (void **state)
{
  static const struct
  {
    const char *name;
    bool head;
    const char *spec; /* of the RayCluster */
    const char *line;
  } rows[] = {
    { "worker defaults", false, "workerGroupSpecs: [{groupName: g}]", "ray start " WORKER_DEFAULTS_1 METRICS },
    { "head defaults", true, "{}",
      "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0 " METRICS },
    { "autoscaling head", true,
      "{enableInTreeAutoscaling: true, headGroupSpec: {rayStartParams: {no-monitor: 'false'}}}",
      "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=0.0.0.0 " METRICS
      " --no-monitor " },
    { "the user wins, except block", true,
      "headGroupSpec: {rayStartParams: {block: 'false', dashboard-host: '::', metrics-export-port: '9', port: '1'}}",
      "ray start --head  --block  --dashboard-agent-listen-port=52365  --dashboard-host=::  --metrics-export-port=9 "
      " --port=1 " },
    { "workers follow the head's port and name", false,
      "{headGroupSpec: {rayStartParams: {port: '6380'}, headService: {metadata: {name: h}}}, workerGroupSpecs: [{}]}",
      "ray start  --address=h.default.svc.cluster.local:6380  --block  --dashboard-agent-listen-port=52365 " METRICS },
    { "group resources", false,
      "workerGroupSpecs: [{resources: {CPU: '1500m', Memory: 1Ki, GPU: '2', TPU: '8', tpu-slice: '0.5', bad: x}}]",
      "ray start " WORKER_DEFAULTS_1 " --memory=1024 " METRICS
      " --num-cpus=2  --num-gpus=2  --resources='{\"TPU\":8,\"tpu-slice\":0.5}' " },
    { "group resources beat the container's", false,
      "workerGroupSpecs: [{resources: {TPU: '8'}, template: {spec: {containers: [{resources: {limits: {google.com/tpu: "
      "4, cpu: 64}}}]}}}]",
      "ray start " WORKER_DEFAULTS_1 METRICS " --num-cpus=64  --resources='{\"TPU\":8}' " },
    { "a quote in a resource name stays inside the shell's quotes", false,
      "workerGroupSpecs: [{resources: {\"it's\": '1'}}]",
      "ray start " WORKER_DEFAULTS_1 METRICS " --resources='{\"it'\\''s\":1}' " },
    { "group labels", false, "workerGroupSpecs: [{labels: {zone: b, ray.io/x: a}}]",
      "ray start " WORKER_DEFAULTS_1 " --labels=ray.io/x=a,zone=b " METRICS },
    { "params of a wrong type are not there", false, "workerGroupSpecs: [{rayStartParams: {num-cpus: 3, x: null}}]",
      "ray start " WORKER_DEFAULTS_1 METRICS },
  };

  (void) state;
  for (size_t i = 0; i < ARRAY_LEN (rows); i++)
    {
      cleanup_json cJSON *object = yaml_one ("metadata: {name: c}"), *spec = yaml_one (rows[i].spec);
      cleanup_scene struct scene s = { 0 };
      cleanup_free char *line = NULL;

      json_set (object, "spec", take_ptr (spec));
      s = scene_of (take_ptr (object));
      line
          = ray_start_command (&s.cluster, rows[i].head ? &s.cluster.head : &s.cluster.groups[0], &ray_default_options);
      if (strcmp (line, rows[i].line) != 0)
        fail_msg ("%s:\n got %s\nwant %s", rows[i].name, line, rows[i].line);
    }
}

int
main (void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test (test_container_resources_golden),
    cmocka_unit_test (test_flags_and_values),
    cmocka_unit_test (test_whole_line),
  };

  return cmocka_run_group_tests (tests, NULL, NULL);
}
