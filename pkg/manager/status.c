/* status.c - plain HTTP for probes and scrapes: libmicrohttpd, driven by one thread for all addresses. */
#include "manager/manager_internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include <microhttpd.h>

#include "base/listen.h"

#define CONNECTIONS_MAX 64
#define CONNECTION_MEMORY 8192
#define TIMEOUT_S 10

struct status_server
{
  struct status_listener listeners[STATUS_LISTENERS_MAX];
  struct MHD_Daemon *daemons[STATUS_LISTENERS_MAX];
  struct pollfd fds[STATUS_LISTENERS_MAX + 1]; /* the daemons' epoll instances, then `stop` */
  size_t count;
  int stop; /* eventfd */
  bool running;
  pthread_t thread;
};

static enum MHD_Result
reply (struct MHD_Connection *connection, int status, const char *type, struct buf *body)
{
  size_t len = body->len;
  struct MHD_Response *response = MHD_create_response_from_buffer (len, buf_take (body), MHD_RESPMEM_MUST_FREE);
  enum MHD_Result ret;

  MHD_add_response_header (response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header (response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  ret = MHD_queue_response (connection, (unsigned int) status, response);
  MHD_destroy_response (response);
  return ret;
}

static const struct status_route *
find_route (const struct status_listener *listener, const char *path)
{
  for (size_t i = 0; i < listener->nroutes; i++)
    if (strcmp (listener->routes[i].path, path) == 0)
      return &listener->routes[i];
  return NULL;
}

static enum MHD_Result
handle (void *cls, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
        const char *upload_data, size_t *upload_data_size, void **con_cls)
{
  const struct status_listener *listener = cls;
  const struct status_route *route = find_route (listener, url);
  cleanup_buf struct buf body = { 0 };
  int status;

  (void) version;
  (void) upload_data;
  (void) con_cls;
  if (*upload_data_size > 0)
    return MHD_NO; /* nothing here takes a body */
  if (route == NULL)
    {
      for (size_t i = 0; i < listener->nroutes; i++)
        buf_printf (&body, "%s\n", listener->routes[i].path);
      return reply (connection, MHD_HTTP_NOT_FOUND, "text/plain", &body);
    }
  if (strcmp (method, MHD_HTTP_METHOD_GET) != 0 && strcmp (method, MHD_HTTP_METHOD_HEAD) != 0)
    return reply (connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", &body);
  status = route->answer (route->data, &body);
  return reply (connection, status, route->type, &body);
}

/* Milliseconds until a daemon wants to run for its timeouts' sake; -1: not until something comes. */
static int
next_timeout (const struct status_server *server)
{
  int least = -1;

  for (size_t i = 0; i < server->count; i++)
    {
      MHD_UNSIGNED_LONG_LONG ms;

      if (MHD_get_timeout (server->daemons[i], &ms) == MHD_YES && (least < 0 || ms < (unsigned) least))
        least = ms < 60000 ? (int) ms : 60000;
    }
  return least;
}

static void *
serve (void *data)
{
  struct status_server *server = data;

  while ((server->fds[server->count].revents & POLLIN) == 0)
    {
      for (size_t i = 0; i < server->count; i++)
        MHD_run (server->daemons[i]);
      poll (server->fds, server->count + 1, next_timeout (server));
    }
  return NULL;
}

static int
add_listener (struct status_server *server, const struct status_listener *listener, struct error *err)
{
  struct MHD_Daemon *daemon;
  size_t i = server->count;
  int fd, port, ret = listen_on (&fd, &port, listener->address, err);

  if (ret < 0)
    return ret;
  server->listeners[i] = *listener;
  daemon = MHD_start_daemon (MHD_USE_EPOLL, 0, NULL, NULL, handle, &server->listeners[i], MHD_OPTION_LISTEN_SOCKET, fd,
                             MHD_OPTION_CONNECTION_LIMIT, (unsigned int) CONNECTIONS_MAX,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) CONNECTION_MEMORY,
                             MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int) TIMEOUT_S, MHD_OPTION_END);
  if (daemon == NULL)
    {
      close (fd);
      return error_set (err, EIO, "cannot serve HTTP on %s", listener->address);
    }
  server->daemons[i] = daemon;
  server->fds[i]
      = (struct pollfd){ .fd = MHD_get_daemon_info (daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN };
  server->count++;
  return 0;
}

int
status_server_start (struct status_server **out, const struct status_listener *listeners, size_t count,
                     struct error *err)
{
  struct status_server *server = xcalloc (1, sizeof (*server));
  int ret = 0;

  server->stop = eventfd (0, EFD_CLOEXEC);
  if (server->stop < 0)
    ret = error_set (err, errno, "eventfd: %s", strerror (errno));
  for (size_t i = 0; i < count && ret == 0; i++)
    ret = add_listener (server, &listeners[i], err);
  if (ret < 0)
    {
      status_server_stop (server);
      return ret;
    }
  server->fds[server->count] = (struct pollfd){ .fd = server->stop, .events = POLLIN };
  manager_thread_start (&server->thread, serve, server, "status");
  server->running = true;
  *out = server;
  return 0;
}

void
status_server_stop (struct status_server *server)
{
  if (server == NULL)
    return;
  if (server->running)
    {
      eventfd_write (server->stop, 1);
      pthread_join (server->thread, NULL);
    }
  for (size_t i = 0; i < server->count; i++)
    MHD_stop_daemon (server->daemons[i]);
  if (server->stop >= 0)
    close (server->stop);
  free (server);
}
