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

/* Limits for all maps together, because traced processes write them. */
#define BYTES_MAX  (256U << 20)
#define LINES_MAX  (2U << 20)
#define NAME_LEN   1024

struct piece {
	uint64_t start, end;
	size_t nth; /* its line: what is written later is what is there now */
	char *name;
};

struct perf_map {
	pid_t pid;
	struct perf_map *next;
	char *text;
	size_t len, lines;
	struct piece *pieces; /* sorted, and none overlaps another one */
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
 * Any user can make a file of that name. Like perf(1), this accepts only files of the process's
 * user or of root. Those of root must be readable by that user, because in a mount namespace of
 * their own users can mount any file there. After the process has ended its user is unknown.
 */
static bool is_its_own(int fd, pid_t pid)
{
	struct stat file;
	uid_t user;

	if (fstat(fd, &file))
		return false;
	return proc_user("/proc", pid, &user) || file.st_uid == user ||
		(!file.st_uid && file.st_mode & S_IROTH);
}

/* O_NOFOLLOW: any user can make a link to a file of the process's user. */
static int open_map(pid_t pid)
{
	_cleanup_close_ int root = proc_open_root("/proc", pid, NULL), fd = -1;
	char path[64];

	if (root < 0)
		root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", proc_own_number("/proc", pid, pid));
	fd = root < 0 ? -1 : proc_open_in_root(root, path, O_NOFOLLOW, NULL);
	return fd >= 0 && is_its_own(fd, pid) ? TAKE_FD(fd) : -1;
}

/* --- its lines ---------------------------------------------------------------------------------- */

static void add_piece(struct perf_map *m, char *line)
{
	struct piece piece = { .nth = m->cnt };
	uint64_t size;
	char *at;

	piece.start = strtoull(line, &at, 16);
	if (at == line || *at != ' ')
		return;
	line = at + 1;
	size = strtoull(line, &at, 16);
	if (at == line || *at != ' ' || !at[1] || !size)
		return;
	piece.end = size > UINT64_MAX - piece.start ? UINT64_MAX : piece.start + size;
	piece.name = at + 1;
	piece.name[strnlen(piece.name, NAME_LEN)] = '\0';
	m->pieces = array_grow(m->pieces, m->cnt, sizeof(*m->pieces));
	m->pieces[m->cnt++] = piece;
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* --- pieces that overlap ------------------------------------------------------------------------ */

/* Heap of the pieces that have begun; the one with the last line is the first. */
struct begun {
	const struct piece **at;
	size_t cnt;
};

static void begun_add(struct begun *b, const struct piece *piece)
{
	size_t i = b->cnt++;

	for (; i && b->at[(i - 1) / 2]->nth < piece->nth; i = (i - 1) / 2)
		b->at[i] = b->at[(i - 1) / 2];
	b->at[i] = piece;
}

static void begun_drop(struct begun *b)
{
	const struct piece *last = b->at[--b->cnt];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < b->cnt) {
		if (child + 1 < b->cnt && b->at[child + 1]->nth > b->at[child]->nth)
			child++;
		if (b->at[child]->nth < last->nth)
			break;
		b->at[i] = b->at[child];
		i = child;
	}
	b->at[i] = last;
}

/*
 * Splits sorted @pieces into @parts that do not overlap: each address belongs to the piece with the
 * last line. A part begins where a piece begins or ends, so that @parts needs room for 2 * @cnt.
 */
static size_t part(const struct piece *pieces, size_t cnt, struct begun *begun, struct piece *parts)
{
	size_t next = 0, part_cnt = 0;
	uint64_t at = 0;

	for (;;) {
		for (; next < cnt && pieces[next].start <= at; next++)
			begun_add(begun, &pieces[next]);
		while (begun->cnt && begun->at[0]->end <= at)
			begun_drop(begun);
		if (!begun->cnt && next == cnt)
			return part_cnt;
		if (!begun->cnt) {
			at = pieces[next].start;
			continue;
		}
		parts[part_cnt] = *begun->at[0];
		parts[part_cnt].start = at;
		if (next < cnt && pieces[next].start < parts[part_cnt].end)
			parts[part_cnt].end = pieces[next].start;
		at = parts[part_cnt++].end;
	}
}

static void part_pieces(struct perf_map *m)
{
	struct begun begun = { .at = xreallocarray(NULL, m->cnt, sizeof(*begun.at)) };
	struct piece *parts = xreallocarray(NULL, 2 * m->cnt, sizeof(*parts));

	qsort(m->pieces, m->cnt, sizeof(*m->pieces), compare_pieces);
	m->cnt = part(m->pieces, m->cnt, &begun, parts);
	free(begun.at);
	free(m->pieces);
	m->pieces = xreallocarray(parts, m->cnt, sizeof(*parts));
}

/* Reads the file, unless the maps before it have reached the limits. */
static void read_pieces(struct perf_map *m)
{
	size_t bytes = BYTES_MAX, lines = LINES_MAX;
	_cleanup_close_ int fd = open_map(m->pid);
	char *rest, *line;
	struct stat st;

	for (const struct perf_map *other = m->next; other; other = other->next) {
		bytes -= other->len;
		lines -= other->lines;
	}
	if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size > bytes ||
		file_read(fd, bytes, &m->text, &m->len))
		return;
	rest = m->text;
	while (m->cnt < lines && (line = strsep(&rest, "\n")))
		add_piece(m, line);
	m->lines = m->cnt;
	if (m->cnt)
		part_pieces(m);
}

const char *perf_map_name(struct perf_map **maps, pid_t pid, uint64_t addr)
{
	size_t low = 0, high;
	struct perf_map *m;

	for (m = *maps; m && m->pid != pid; m = m->next)
		;
	if (!m) {
		m = xcalloc(1, sizeof(*m));
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
	return low && addr < m->pieces[low - 1].end ? m->pieces[low - 1].name : NULL;
}
