/* kube_test_server.h - an HTTP(S) server in the test's own process, on a free loopback port, scripted by a handler. One
 * thread per connection, so a handler may take its time. */
#ifndef KUBE_TEST_SERVER_H
#define KUBE_TEST_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/kube.h"

struct test_server;
struct test_stream;

struct test_request
{
  const char *method;
  const char *path;                                  /* with its query */
  const char *body;                                  /* "" for none */
  const char *content_type, *authorization, *accept; /* "" for none */
};

struct test_answer
{
  int status; /* 200 when 0 */
  int retry_after_s;
  char *body;                 /* freed by the server */
  struct test_stream *stream; /* the body comes from here */
  bool hang;                  /* no answer until the server stops */
  bool close;                 /* the connection is closed instead of an answer */
};

/* Called on the connection's thread, several at once. */
typedef void (*test_handler) (void *data, const struct test_request *request, struct test_answer *answer);

struct test_server *test_server_start (test_handler handler, void *data, bool tls);
void test_server_stop (struct test_server *server);
/* A client configuration for it; with its certificate as CA when it speaks TLS. Free it with kube_config_free. */
void test_server_config (const struct test_server *server, struct kube_config *config);
/* A client that uses that configuration. */
struct kube_client *test_server_client (const struct test_server *server, const struct kube_client_options *options);

/* A body that is sent piece by piece. Lives until the server stops. */
struct test_stream *test_stream_new (struct test_server *server);
void test_stream_send (struct test_stream *stream, const char *bytes, size_t len); /* one piece */
void test_stream_end (struct test_stream *stream);
void test_stream_cut (struct test_stream *stream); /* the connection breaks */

/* Waits, for half a minute at most, until the condition holds; fails the test when it does not. For what happens on
 * other threads: the bound only keeps a broken test from hanging. */
#define wait_for(condition)                                                                                            \
  do                                                                                                                   \
    {                                                                                                                  \
      int64_t until_ = clock_mono_ms () + 30000;                                                                       \
      while (!(condition) && clock_mono_ms () < until_)                                                                \
        clock_sleep_ms (1);                                                                                            \
      if (!(condition))                                                                                                \
        fail_msg ("waited in vain for: %s", #condition);                                                               \
    }                                                                                                                  \
  while (0)

#endif
