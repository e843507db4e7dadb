/* The few calls of MPI that a search over many ranks needs, as a shared object of its own: Kiln itself links no MPI and
 * opens this where `mpirun` started it. All of it is called by one thread. */
#include <mpi.h>

#include <stdlib.h>

/* Joins the other ranks. 0: it did not work. */
int kiln_mpi_start(int *rank, int *size) {
    int level = 0;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
        return 0;
    }
    return MPI_Comm_rank(MPI_COMM_WORLD, rank) == MPI_SUCCESS &&
           MPI_Comm_size(MPI_COMM_WORLD, size) == MPI_SUCCESS;
}

int kiln_mpi_send(int to, const void *data, int size) {
    return MPI_Send(data, size, MPI_BYTE, to, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
}

/* Whether a message waits; from whom, and its bytes. */
int kiln_mpi_probe(int *from, int *size) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, &status);
    if (there) {
        *from = status.MPI_SOURCE;
        MPI_Get_count(&status, MPI_BYTE, size);
    }
    return there;
}

int kiln_mpi_receive(int from, void *data, int size) {
    return MPI_Recv(data, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

void kiln_mpi_end(void) {
    MPI_Finalize();
}

/* Ends all ranks. */
void kiln_mpi_abort(int code) {
    MPI_Abort(MPI_COMM_WORLD, code);
    exit(code);
}
