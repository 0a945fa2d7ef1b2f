/* ray.h - the RayCluster: what a ray.io/v1 object says (cluster, and holder for specs inside other objects), whether it
 * makes sense (validate), what it leaves out (default_hosts), the Pods it stands for (build) and the other objects it
 * owns (children), what to do next about what exists (plan), how it ends (teardown) and what to tell its user (status).
 * Pure: no I/O, no clock, no globals that change. Rules: facts/kuberay.md, "§" below means its sections. */
#ifndef RAY_RAY_H
#define RAY_RAY_H

#include "ray/cluster.h"
#include "ray/holder.h"
#include "ray/validate.h"
#include "ray/default_hosts.h"
#include "ray/build.h"
#include "ray/children.h"
#include "ray/plan.h"
#include "ray/status.h"
#include "ray/teardown.h"

#endif
