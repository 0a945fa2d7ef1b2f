#include "base/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/memory.h"
#include "base/text.h"

struct address
{
  char host[256]; /* "" for all addresses */
  char port[8];
};

static int
bad_address (const char *text, struct error *err)
{
  return error_set (err, EINVAL, "bind address \"%s\" is not of the form host:port, :port or [IPv6]:port", text);
}

static int
split (struct address *out, const char *text, struct error *err)
{
  const char *colon = strrchr (text, ':');
  size_t len = colon != NULL ? (size_t) (colon - text) : 0;
  const char *host = text;
  int64_t port;

  if (colon == NULL || text_to_int (colon + 1, 0, 65535, &port) < 0)
    return bad_address (text, err);
  if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
    {
      host++;
      len -= 2;
    }
  else if (memchr (text, ':', len) != NULL)
    return bad_address (text, err); /* IPv6 without brackets: which colon ends it? */
  if (len >= sizeof (out->host))
    return bad_address (text, err);
  memcpy (out->host, host, len);
  out->host[len] = '\0';
  snprintf (out->port, sizeof (out->port), "%d", (int) port);
  return 0;
}

int
listen_check (const char *bind_address, struct error *err)
{
  struct address address = { 0 };

  return split (&address, bind_address, err);
}

/* Binds and listens on one address; -errno. */
static int
open_one (int *fd, const struct addrinfo *address)
{
  const int on = 1, off = 0;
  cleanup_close int s
      = socket (address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol);

  if (s < 0)
    return -errno;
  setsockopt (s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof (on));
  if (address->ai_family == AF_INET6)
    setsockopt (s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof (off));
  if (bind (s, address->ai_addr, address->ai_addrlen) < 0 || listen (s, SOMAXCONN) < 0)
    return -errno;
  *fd = s;
  s = -1;
  return 0;
}

static int
open_host (int *fd, const char *host, const char *port, const char **why)
{
  struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *list = NULL;
  int ret = getaddrinfo (host, port, &hints, &list);

  if (ret != 0)
    {
      *why = gai_strerror (ret);
      return -EINVAL;
    }
  ret = -EADDRNOTAVAIL;
  for (const struct addrinfo *a = list; a != NULL && ret < 0; a = a->ai_next)
    ret = open_one (fd, a);
  freeaddrinfo (list);
  if (ret < 0)
    *why = strerror (-ret);
  return ret;
}

static int
bound_port (int fd)
{
  union
  {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } address = { .v6 = { 0 } };
  socklen_t len = sizeof (address);

  if (getsockname (fd, &address.any, &len) < 0)
    return 0;
  return ntohs (address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

int
listen_on (int *fd, int *port, const char *bind_address, struct error *err)
{
  struct address address = { 0 };
  const char *why = "";
  int ret = split (&address, bind_address, err);

  if (ret < 0)
    return ret;
  /* "::" takes IPv4 too; a kernel without IPv6 has only the other. */
  ret = open_host (fd, address.host[0] != '\0' ? address.host : "::", address.port, &why);
  if (ret < 0 && ret != -EADDRINUSE && ret != -EACCES && address.host[0] == '\0')
    ret = open_host (fd, "0.0.0.0", address.port, &why);
  if (ret < 0)
    return error_set (err, -ret, "cannot listen on %s: %s", bind_address, why);
  *port = bound_port (*fd);
  return 0;
}

char *
listen_local_host (const char *bind_address)
{
  static const char *const everywhere[][2] = { { "", "127.0.0.1" }, { "0.0.0.0", "127.0.0.1" }, { "::", "::1" } };
  struct address address = { 0 };

  if (split (&address, bind_address, NULL) < 0)
    return xstrdup ("127.0.0.1");
  for (size_t i = 0; i < ARRAY_LEN (everywhere); i++)
    if (strcmp (address.host, everywhere[i][0]) == 0)
      return xstrdup (everywhere[i][1]);
  return xstrdup (address.host);
}
