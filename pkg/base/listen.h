/* listen.h - from "host:port" to a listening socket. */
#ifndef BASE_LISTEN_H
#define BASE_LISTEN_H

#include "base/error.h"

/* Whether text has the form host:port, :port or [IPv6]:port with a port of 0..65535; -EINVAL says so otherwise. */
int listen_check (const char *bind_address, struct error *err);

/* A listening, non-blocking socket and the port it got (0 picks one). ":port" is all addresses, IPv6 too where there is
 * any. */
int listen_on (int *fd, int *port, const char *bind_address, struct error *err);

/* Where a client on this machine reaches a socket bound so: the host without brackets, a loopback address when it is
 * bound to all addresses. Owned by the caller. */
char *listen_local_host (const char *bind_address);

#endif
