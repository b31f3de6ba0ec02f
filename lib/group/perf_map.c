// SPDX-License-Identifier: BSD-2-Clause
// What code is called that a process has made itself: /tmp/perf-PID.map, which JIT compilers write
// for perf(1), a line for each piece, "START SIZE NAME" with numbers in hex.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/util.h"
#include "group/records.h"
#include "group/stacks.h"
#include "proc/proc.h"

#define BYTES_MAX (256U << 20)

struct piece {
	uint64_t start, size;
	size_t nth; /* of those at one place the last one counts */
	char *name;
};

struct perf_map {
	pid_t pid;
	struct perf_map *next;
	char *text;
	struct piece *pieces; /* sorted, each place once */
	size_t cnt;
};

void perf_maps_free(struct perf_map *m)
{
	while (m) {
		struct perf_map *next = m->next;

		free(m->text);
		free(m->pieces);
		free(m);
		m = next;
	}
}

/*
 * Anybody may make a file of that name: as perf(1) does, only one of the process's user or of root
 * is taken. Of a process that has ended that is not known.
 */
static bool is_its_own(int fd, pid_t pid)
{
	struct stat file, process;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	return !fstat(fd, &file) &&
		(!file.st_uid || stat(path, &process) || file.st_uid == process.st_uid);
}

static int open_map(pid_t pid)
{
	_cleanup_close_ int root = proc_open_root("/proc", pid, NULL), fd = -1;
	char path[64];

	if (root < 0)
		root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", proc_own_number("/proc", pid, pid));
	fd = root < 0 ? -1 : proc_open_in_root(root, path, NULL);
	return fd >= 0 && is_its_own(fd, pid) ? TAKE_FD(fd) : -1;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->nth < y->nth ? 1 : -1;
}

static int add_piece(struct perf_map *m, char *line)
{
	struct piece piece = { .nth = m->cnt }, *grown;
	char *at;

	piece.start = strtoull(line, &at, 16);
	if (at == line || *at != ' ')
		return 0;
	line = at + 1;
	piece.size = strtoull(line, &at, 16);
	if (at == line || *at != ' ' || !at[1])
		return 0;
	piece.name = at + 1;
	grown = array_grow(m->pieces, m->cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	m->pieces = grown;
	grown[m->cnt++] = piece;
	return 0;
}

static void read_pieces(struct perf_map *m)
{
	_cleanup_close_ int fd = open_map(m->pid);
	char *rest, *line;
	size_t len, kept = 0;

	if (fd < 0 || file_read(fd, BYTES_MAX, &m->text, &len))
		return;
	rest = m->text;
	while ((line = strsep(&rest, "\n")))
		if (add_piece(m, line))
			break;
	if (m->cnt)
		qsort(m->pieces, m->cnt, sizeof(*m->pieces), compare_pieces);
	for (size_t i = 0; i < m->cnt; i++)
		if (!kept || m->pieces[kept - 1].start != m->pieces[i].start)
			m->pieces[kept++] = m->pieces[i];
	m->cnt = kept;
}

const char *perf_map_name(struct perf_map **maps, pid_t pid, uint64_t addr)
{
	size_t low = 0, high;
	struct perf_map *m;

	for (m = *maps; m && m->pid != pid; m = m->next)
		;
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m)
			return NULL;
		*m = (struct perf_map) { .pid = pid, .next = *maps };
		*maps = m;
		read_pieces(m);
	}
	for (high = m->cnt; low < high;) {
		size_t mid = low + (high - low) / 2;

		if (m->pieces[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low && addr - m->pieces[low - 1].start < m->pieces[low - 1].size
		? m->pieces[low - 1].name
		: NULL;
}
