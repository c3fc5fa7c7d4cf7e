/* Address space that a forked process takes, so that libraries and what it maps lie elsewhere than in its parent's other children
   (timer.c; microbenchmark's measure.c). A library goes to the highest hole in which it fits, and all children have their
   parent's holes: these are filled down to a place of the process's own. */
#ifndef PERFKIT_ELSEWHERE_H
#define PERFKIT_ELSEWHERE_H
#include <stddef.h>
#include <sys/mman.h>

#define LARGEST_HOLE ((size_t)64 << 20)
#define SMALLEST_HOLE ((size_t)4096)
#define HOLES 64 /* of a size, at most: with an unlimited stack (ulimit -s), memory is mapped upwards, and none lies below */

static inline char *take_room(size_t size) {
    return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
/* Take `size` bytes, or what there is, and the holes above; returns how many bytes were taken in all. */
static size_t fill_holes(size_t size) {
    char *place = MAP_FAILED;
    while (size >= SMALLEST_HOLE && (place = take_room(size)) == MAP_FAILED) size /= 2; /* less may be left (ulimit -v) */
    if (place == MAP_FAILED) return 0;
    for (size_t hole = LARGEST_HOLE; hole >= SMALLEST_HOLE; hole /= 2)
        for (int i = 0; i < HOLES; i++) {
            char *at = take_room(hole);
            if (at == MAP_FAILED) break;
            if (at < place) {
                munmap(at, hole);
                break;
            }
            size += hole;
        }
    return size;
}
#endif
