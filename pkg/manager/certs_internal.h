/* certs_internal.h - the serving certificate, shared by certs.c (its life) and cert_sources.c (where it comes from). */
#ifndef MANAGER_CERTS_INTERNAL_H
#define MANAGER_CERTS_INTERNAL_H

#include <sys/stat.h>

#include "manager/manager_internal.h"

/* What tells a changed file without reading it. Mounted Secrets change by a symbolic link, hence the inode. */
struct stamp
{
  struct timespec changed;
  ino_t inode;
  off_t size;
};

struct certs
{
  const struct manager_options *options;
  char *namespace;
  char **names; /* of the serving certificate */
  size_t nnames;
  bool from_files, from_secret; /* else from memory */

  struct admission_server *server;
  struct kube_client *client; /* NULL: no API access */
  struct hooks *hooks;        /* NULL: the webhook configurations are not ours to write */

  /* the thread's, once it runs */
  struct pki_bundle bundle; /* of our own making */
  struct pki_pair pair;     /* from the files */
  struct stamp stamps[2];
  int64_t refresh_ms; /* monotonic: when to look at the certificate again */
  int failures;
  char *served_pem; /* what the server has */

  pthread_t thread;
  bool running;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool stop, dirty;
  bool settled;         /* the certificate is the one to be used: the Secret has been agreed upon */
  struct error trouble; /* why not, or why it could not be replaced */
  char *trust_pem;
  struct pki_info served; /* of served_pem */
};

/* Brings bundle or pair up to date from wherever they come, and says in c->refresh_ms when to do so again. What is at
 * hand stays when it fails. The certs thread's, or anybody's before that runs. */
int certs_refresh (struct certs *c, struct error *err);

#endif
