/* ray-tpu-operator - the controller and admission webhook; what it does and in which order is pkg/manager's. */
#include "manager/manager.h"

int
main (int argc, char **argv)
{
  return manager_main (argc, argv);
}
