/* base.h - what every room needs and Kubernetes does not know of: memory, errors, text, logs, time, quantities,
 * versions. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/memory.h"
#include "base/error.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/clock.h"
#include "base/quantity.h"
#include "base/version.h"
#include "base/text.h"

#endif
