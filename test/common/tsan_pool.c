/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A mempool driver for runs under ThreadSanitizer: a stack under a mutex. DPDK's own ring driver is
 * not instrumented, so ThreadSanitizer does not see that it hands an mbuf from one thread to
 * another. test_eal_init() selects this driver.
 */

#ifdef __SANITIZE_THREAD__

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mempool.h>

struct tsan_pool {
	pthread_mutex_t lock;
	unsigned int n;
	void *obj[];
};

static int
tsan_pool_alloc(struct rte_mempool *mp)
{
	struct tsan_pool *p = malloc(sizeof(*p) + mp->size * sizeof(void *));

	if (p == NULL)
		return -ENOMEM;
	pthread_mutex_init(&p->lock, NULL);
	p->n = 0;
	mp->pool_data = p;
	return 0;
}

static void
tsan_pool_free(struct rte_mempool *mp)
{
	free(mp->pool_data);
}

static int
tsan_pool_enqueue(struct rte_mempool *mp, void *const *obj, unsigned int n)
{
	struct tsan_pool *p = mp->pool_data;

	pthread_mutex_lock(&p->lock);
	memcpy(p->obj + p->n, obj, n * sizeof(*obj));
	p->n += n;
	pthread_mutex_unlock(&p->lock);
	return 0;
}

static int
tsan_pool_dequeue(struct rte_mempool *mp, void **obj, unsigned int n)
{
	struct tsan_pool *p = mp->pool_data;
	int rc = -ENOBUFS;

	pthread_mutex_lock(&p->lock);
	if (p->n >= n) {
		p->n -= n;
		memcpy(obj, p->obj + p->n, n * sizeof(*obj));
		rc = 0;
	}
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static unsigned int
tsan_pool_count(const struct rte_mempool *mp)
{
	struct tsan_pool *p = mp->pool_data;
	unsigned int n;

	pthread_mutex_lock(&p->lock);
	n = p->n;
	pthread_mutex_unlock(&p->lock);
	return n;
}

static const struct rte_mempool_ops tsan_pool_ops = {
        .name = "tsan_pool",
        .alloc = tsan_pool_alloc,
        .free = tsan_pool_free,
        .enqueue = tsan_pool_enqueue,
        .dequeue = tsan_pool_dequeue,
        .get_count = tsan_pool_count,
};

RTE_MEMPOOL_REGISTER_OPS(tsan_pool_ops);

#endif /* __SANITIZE_THREAD__ */
