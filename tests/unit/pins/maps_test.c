// SPDX-License-Identifier: BSD-2-Clause
// Words of records that programs write while they are read: each is one that was written.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "pins/maps.h"
#include "shared/layout.h"
#include "tap.h"

#define RECORDS  16
#define READINGS 20000

struct words {
	uint64_t *word;
	size_t cnt;
	bool over;
};

/* Two values, the one all bits, the other none: halves of both are neither. */
static void *write_words(void *arg)
{
	struct words *w = arg;

	uint64_t value = 0;

	for (; !__atomic_load_n(&w->over, __ATOMIC_RELAXED); value = ~value)
		for (size_t i = 0; i < w->cnt; i++)
			__atomic_store_n(&w->word[i], value, __ATOMIC_RELAXED);
	return NULL;
}

/* A map that can't be mapped is one without room for it, which AddressSanitizer needs itself. */
static void allow_mapping(bool allowed)
{
	struct rlimit limit;

#ifdef __SANITIZE_ADDRESS__
	allowed = true;
#endif
	getrlimit(RLIMIT_AS, &limit);
	limit.rlim_cur = allowed ? limit.rlim_max : 1;
	setrlimit(RLIMIT_AS, &limit);
}

static int count_torn(int fd, size_t size, uint64_t *buf, uint64_t *ret_torn)
{
	size_t cnt = RECORDS * size / sizeof(*buf);
	int code = 0;

	*ret_torn = 0;
	for (int i = 0; !code && i < READINGS; i++) {
		code = map_read(fd, 0, RECORDS, size, buf);
		for (size_t k = 0; k < cnt; k++)
			*ret_torn += buf[k] && ~buf[k];
	}
	return code;
}

/* Only processors that copy bytes tell of a reader who copies (FSRM of /proc/cpuinfo). */
static void test_words(size_t size, bool mapped, const char *what)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd = bpf_map_create(
		BPF_MAP_TYPE_ARRAY, "fsn_test", sizeof(uint32_t), size, RECORDS, &opts);
	_cleanup_free_ uint64_t *buf = calloc(RECORDS, size);
	_cleanup_mapping_ struct map_mapping m = {};
	struct words w = { .cnt = RECORDS * size / sizeof(uint64_t) };
	uint64_t torn = 0;
	pthread_t writer;
	int code;

	if (fd == -EPERM || fd == -ENOSYS) {
		ok(true, "words of %s are read whole # SKIP no privilege for maps", what);
		return;
	}
	code = map_mmap(fd, RECORDS * size, &m);
	w.word = m.addr;
	if (!ok(!code && buf && !pthread_create(&writer, NULL, write_words, &w),
		    "%s are written", what))
		return;
	allow_mapping(mapped);
	code = count_torn(fd, size, buf, &torn);
	allow_mapping(true);
	__atomic_store_n(&w.over, true, __ATOMIC_RELAXED);
	pthread_join(writer, NULL);
	is_int(code, 0, "they are read meanwhile");
	is_int(torn, 0, "and no word is half old, half new");
}

/* Elements in the middle, and after the first page. */
static void test_range(bool mapped)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fsn_test",
		sizeof(uint32_t), sizeof(uint64_t), 100000, &opts);
	_cleanup_mapping_ struct map_mapping m = {};
	uint64_t buf[4] = {}, *word;

	if (fd == -EPERM || fd == -ENOSYS) {
		ok(true, "elements in the middle are read # SKIP no privilege for maps");
		return;
	}
	if (!ok(!map_mmap(fd, 100000 * sizeof(*word), &m), "many elements"))
		return;
	word = m.addr;
	for (int i = 0; i < 100000; i++)
		word[i] = i;
	allow_mapping(mapped);
	ok(!map_read(fd, 70001, 3, sizeof(*word), buf) && buf[0] == 70001 &&
			buf[2] == 70003 && !buf[3],
		"those in the middle are read, and no more");
	ok(!map_read(fd, 99999, 1, sizeof(*word), buf) && buf[0] == 99999,
		"the last one");
	ok(!map_read(fd, 5, 0, sizeof(*word), buf) && buf[0] == 99999, "none");
	is_int(map_read(fd, 99999, 2, sizeof(*word), buf), -ENOENT, "one too many");
	allow_mapping(true);
}

int main(void)
{
	test_words(sizeof(struct fsn_stat), true, "counters");
	test_words(sizeof(struct fsn_stat), false, "counters that can't be mapped");
	test_words(sizeof(struct fsn_hist), false, "buckets");
	test_words(sizeof(struct fsn_slow), false, "slow calls");
	test_range(true);
	test_range(false);
	return tap_done();
}
