/* server_internal.h - the running server, shared by server.c (lifecycle), http.c (requests) and certificate.c (TLS). */
#ifndef ADMISSION_SERVER_INTERNAL_H
#define ADMISSION_SERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>

#include "admission/admission_internal.h"

/* ---- certificate.c ---- */

/* A serving certificate as GnuTLS wants it. GnuTLS keeps pointers into it during a handshake, so each connection holds
 * a reference for as long as it lives. */
struct certificate;

int certificate_load (struct certificate **out, const char *cert_pem, const char *key_pem, struct error *err);
struct certificate *certificate_ref (struct certificate *certificate);
void certificate_unref (struct certificate *certificate); /* NULL is fine */
/* Binds a session to the certificate its handshake will present. */
void certificate_bind (gnutls_session_t session, struct certificate *certificate);
/* gnutls_certificate_retrieve_function2: presents the bound certificate. */
int certificate_retrieve (gnutls_session_t session, const gnutls_datum_t *req_ca_dn, int nreqs,
                          const gnutls_pk_algorithm_t *pk_algos, int pk_algos_length, gnutls_pcert_st **pcert,
                          unsigned int *pcert_length, gnutls_privkey_t *privkey);

/* ---- server.c ---- */

struct route_counters
{
  atomic_uint_fast64_t outcomes[ADMISSION_OUTCOME_MAX];
  atomic_uint_fast64_t latency[ADMISSION_BUCKETS];
  atomic_uint_fast64_t latency_sum_us;
};

struct admission_server
{
  struct admission_server_options options; /* defaults filled in */
  struct MHD_Daemon *daemon;
  int port;
  pthread_mutex_t lock; /* guards certificate */
  struct certificate *certificate;
  pthread_mutex_t large;           /* held while a large review is answered */
  struct route_counters *counters; /* one per route */
  atomic_size_t in_flight;         /* requests begun and not yet answered to the last byte */
  atomic_size_t pending_bytes;     /* body bytes held by requests in flight */
  atomic_bool draining;
};

/* ---- http.c: MHD's callbacks; cls is the server ---- */

enum MHD_Result http_handle (void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                             const char *version, const char *upload_data, size_t *upload_data_size, void **con_cls);
void http_completed (void *cls, struct MHD_Connection *connection, void **con_cls, enum MHD_RequestTerminationCode toe);
void http_connection (void *cls, struct MHD_Connection *connection, void **socket_context,
                      enum MHD_ConnectionNotificationCode toe);

#endif
