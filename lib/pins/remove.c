// SPDX-License-Identifier: BSD-2-Clause
// Removes a group and waits until its probes are gone; removes breakpoints of killed writers.
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>

#include "base/apart.h"
#include "base/file.h"
#include "base/util.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"
#include "pins/maps.h"
#include "proc/proc.h"

/*
 * A map that no BPF program uses records the probe sites of a group in its directory. Orphaned
 * breakpoints at these sites are removed by attaching and detaching a probe there.
 *
 * When the kernel finds a breakpoint in place, it treats the breakpoint as its own and removes it
 * with the probe, unless another probe uses it (install_breakpoint and remove_breakpoint,
 * kernel/events/uprobes.c). The file is opened by its path, or through a process that maps it, even
 * if it was deleted. A file that no process maps has no breakpoints.
 */

#define PIN     "breaks"
#define VERSION 1
#define PIECE   4096 /* bytes of the map's values */
#define MOST    (64U << 20)

/* Layout of the map: a head, then for each file a part, the padded path and the offsets. */
struct head {
	uint32_t version, files;
	uint64_t bytes; /* total size with this head */
};

struct part {
	uint64_t dev, ino, size, ctime_ns, cnt;
	uint32_t overlay, path_bytes; /* with padding, a multiple of 8 */
};

struct breaks {
	char *blob; /* paths and offsets of .files point into it */
	struct breaks_file *files;
	size_t cnt;
};

/* --- writing -------------------------------------------------------------------------------- */

static void put_file(FILE *f, const struct breaks_file *file)
{
	static const char padding[8];
	size_t len = strlen(file->path) + 1, pad = -len % 8;
	struct part part = { file->dev, file->ino, file->size, file->ctime_ns, file->cnt,
		file->overlay, len + pad };

	fwrite(&part, sizeof(part), 1, f);
	fwrite(file->path, len, 1, f);
	fwrite(padding, pad, 1, f);
	fwrite(file->offsets, sizeof(*file->offsets), file->cnt, f);
}

/* Returns an allocated buffer of *@ret_pieces pieces. */
static char *blob_make(const struct breaks_file *files, size_t cnt, size_t *ret_pieces)
{
	struct head head = { VERSION, cnt, 0 };
	size_t size = 0;
	char *blob;
	FILE *f = xmemstream(&blob, &size);

	fwrite(&head, sizeof(head), 1, f);
	for (size_t i = 0; i < cnt; i++)
		put_file(f, &files[i]);
	xmemstream_end(f);
	*ret_pieces = (size + PIECE - 1) / PIECE;
	blob = xreallocarray(blob, *ret_pieces, PIECE);
	memset(blob + size, 0, *ret_pieces * PIECE - size);
	head.bytes = size;
	return memcpy(blob, &head, sizeof(head));
}

int breaks_write(const struct breaks_file *files, size_t cnt, int dir_fd, struct err *err)
{
	size_t pieces;
	_cleanup_free_ char *blob = blob_make(files, cnt, &pieces);
	_cleanup_close_ int fd = -1;
	int code;

	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fsn_breaks", sizeof(uint32_t), PIECE, pieces,
		NULL);
	if (fd < 0)
		return err_sys(err, -errno, "cannot write down the probes");
	code = map_write(fd, 0, pieces, PIECE, blob);
	if (code)
		return err_sys(err, code, "cannot write down the probes");
	return bpffs_pin(dir_fd, PIN, fd, err);
}

/* --- reading -------------------------------------------------------------------------------- */

/* Consumes @size of the *@left bytes at *@at, and returns their start. NULL if fewer are left. */
static const void *take(const char **at, size_t *left, uint64_t size)
{
	const char *taken = *at;

	if (size > *left)
		return NULL;
	*at += size;
	*left -= size;
	return taken;
}

static bool parse_file(const char **at, size_t *left, struct breaks_file *file)
{
	const struct part *part = take(at, left, sizeof(*part));

	if (!part || part->path_bytes % 8 || part->cnt > *left / sizeof(uint64_t))
		return false;
	*file = (struct breaks_file) { part->dev, part->ino, part->size, part->ctime_ns,
		part->overlay, take(at, left, part->path_bytes), NULL, part->cnt };
	file->offsets = take(at, left, part->cnt * sizeof(uint64_t));
	return part->path_bytes && file->path && !file->path[part->path_bytes - 1] &&
		file->offsets;
}

static int parse(struct breaks *b, size_t size)
{
	const struct head *head = (const struct head *)(const void *)b->blob;
	const char *at = b->blob + sizeof(*head);
	size_t left;

	if (size < sizeof(*head) || head->version != VERSION || head->bytes > size ||
		head->bytes < sizeof(*head) || head->files > size / sizeof(struct part))
		return -EPROTO;
	left = head->bytes - sizeof(*head);
	b->files = calloc(head->files + 1, sizeof(*b->files));
	if (!b->files)
		return -ENOMEM;
	for (; b->cnt < head->files; b->cnt++)
		if (!parse_file(&at, &left, &b->files[b->cnt]))
			return -EPROTO;
	return 0;
}

static void breaks_done(struct breaks *b)
{
	free(b->blob);
	free(b->files);
}

/* Reads the record of breaks_write(). Returns -ENOENT if there is none, -EPROTO, -ENOMEM, ... */
static int breaks_read(int dir_fd, struct breaks *ret_breaks)
{
	__cleanup(breaks_done) struct breaks b = {};
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	_cleanup_close_ int fd = bpffs_get(dir_fd, PIN, BPF_F_RDONLY);
	int code;

	if (fd < 0)
		return fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	if (info.type != BPF_MAP_TYPE_ARRAY || info.value_size != PIECE ||
		info.max_entries > MOST / PIECE)
		return -EPROTO;
	b.blob = malloc((size_t)info.max_entries * PIECE);
	if (!b.blob)
		return -ENOMEM;
	code = map_read(fd, 0, info.max_entries, PIECE, b.blob);
	if (!code)
		code = parse(&b, (size_t)info.max_entries * PIECE);
	if (code)
		return code;
	*ret_breaks = b;
	b = (struct breaks) {};
	return 0;
}

#if defined(__x86_64__)
static const uint8_t breakpoint[] = { 0xcc };
#elif defined(__aarch64__)
/* BRK64_OPCODE_UPROBES, arch/arm64/include/asm/debug-monitors.h */
static const uint8_t breakpoint[] = { 0xa0, 0x00, 0x20, 0xd4 };
#endif

static breaks_tell_fn tell_fn;
static void *tell_arg;

void breaks_init(breaks_tell_fn tell, void *arg)
{
	tell_fn = tell;
	tell_arg = arg;
}

/* --- the file ------------------------------------------------------------------------------- */

/* Like elf_file_same(): overlayfs shows one file with several device and inode numbers. */
static bool is_file(const struct breaks_file *f, int fd)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || (uint64_t)st.st_size != f->size)
		return false;
	if (st.st_dev == f->dev && st.st_ino == f->ino)
		return true;
	if (!f->overlay && (fstatfs(fd, &fs) || fs.f_type != OVERLAYFS_SUPER_MAGIC))
		return false;
	return (uint32_t)st.st_ino == (uint32_t)f->ino &&
		st.st_ctim.tv_sec * 1000000000ULL + st.st_ctim.tv_nsec == f->ctime_ns;
}

/* True if @map may map the file. A note on the process may follow the path in @f. */
static bool may_map(const struct breaks_file *f, const struct proc_map *map)
{
	return map->exec &&
		((uint32_t)map->ino == (uint32_t)f->ino ||
			!strncmp(map->path, f->path, strlen(map->path)));
}

static int open_of_process(const struct breaks_file *f, pid_t pid)
{
	_cleanup_proc_maps_ struct proc_maps maps = {};

	if (proc_maps_read("/proc", pid, &maps, NULL))
		return -1;
	for (size_t i = 0; i < maps.cnt; i++) {
		_cleanup_close_ int fd = -1;

		if (may_map(f, &maps.maps[i]))
			fd = proc_open_mapped("/proc", pid, &maps.maps[i], NULL);
		if (fd >= 0 && is_file(f, fd))
			return TAKE_FD(fd);
	}
	return -1;
}

static int open_file(const struct breaks_file *f, const pid_t *pids, size_t cnt)
{
	_cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int found = -1;

	if (fd >= 0 && is_file(f, fd))
		return TAKE_FD(fd);
	for (size_t i = 0; found < 0 && i < cnt; i++)
		found = open_of_process(f, pids[i]);
	return found;
}

/* --- finding breakpoints -------------------------------------------------------------------- */

/* Sets @held for each offset with a breakpoint in @map, and returns their number. */
static size_t mark_held(const struct breaks_file *f, int mem_fd, const struct proc_map *map,
	bool *held)
{
	uint64_t end = map->offset + (map->end - map->start);
	uint8_t bytes[sizeof(breakpoint)];
	size_t cnt = 0;

	for (size_t i = 0; i < f->cnt; i++) {
		uint64_t at = map->start + (f->offsets[i] - map->offset);

		if (f->offsets[i] < map->offset || f->offsets[i] >= end ||
			pread(mem_fd, bytes, sizeof(bytes), (off_t)at) != sizeof(bytes) ||
			memcmp(bytes, breakpoint, sizeof(bytes)) != 0)
			continue;
		held[i] = true;
		cnt++;
	}
	return cnt;
}

static size_t held_by(const struct breaks_file *f, pid_t pid, bool *held)
{
	_cleanup_proc_maps_ struct proc_maps maps = {};
	_cleanup_close_ int fd = -1;
	char path[64];
	size_t cnt = 0;

	if (proc_maps_read("/proc", pid, &maps, NULL))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < maps.cnt; i++)
		if (may_map(f, &maps.maps[i]))
			cnt += mark_held(f, fd, &maps.maps[i], held);
	return cnt;
}

static void tell(pid_t pid, size_t cnt)
{
	char comm[PROC_COMM_LEN];
	struct err what = {};

	if (!tell_fn)
		return;
	proc_comm(pid, pid, comm);
	err_set(&what, -EUCLEAN, "process %d (%s) has %zu orphaned breakpoints", pid, comm,
		cnt);
	err_hint(&what, "a command was killed while it changed probes; each costs a trap at every "
			"call until the process exits");
	tell_fn(&what, tell_arg);
}

/* Sets @held for offsets with a breakpoint in any process. Reports these processes if @telling. */
static void find_held(const struct breaks_file *f, const pid_t *pids, size_t cnt, bool *held,
	bool telling)
{
	for (size_t i = 0; i < cnt; i++) {
		size_t n = held_by(f, pids[i], held);

		if (n && telling)
			tell(pids[i], n);
	}
}

/* --- healing -------------------------------------------------------------------------------- */

struct pass {
	const struct link_probes *probes;
	int code;
};

/* Runs in a process of apart_run(), like all code that inserts breakpoints. */
static void pass_probes(void *arg)
{
	struct pass *pass = arg;

	pass->code = link_pass(pass->probes);
}

static int pass_apart(const struct link_probes *probes)
{
	struct pass *pass = apart_alloc(sizeof(*pass));
	int code;

	*pass = (struct pass) { probes, -EINTR }; /* stays if the process is killed */
	apart_run(pass_probes, pass, NULL, NULL);
	code = pass->code;
	apart_free(pass, sizeof(*pass));
	return code;
}

/* One link per offset is slow, so only offsets that have breakpoints are attached. */
static int pass_file(const struct breaks_file *f, int fd, const pid_t *pids, size_t pid_cnt,
	bool *held)
{
	_cleanup_free_ unsigned long *offsets = xcalloc(f->cnt + 1, sizeof(*offsets));
	struct link_probes probes = { .file_fd = fd, .offsets = offsets };

	if (link_mode_probe(LINK_MULTI))
		find_held(f, pids, pid_cnt, held, false);
	else
		memset(held, true, f->cnt);
	for (size_t i = 0; i < f->cnt; i++)
		if (held[i])
			offsets[probes.cnt++] = f->offsets[i];
	return probes.cnt ? pass_apart(&probes) : 0;
}

static int heal_file(const struct breaks_file *f, const pid_t *pids, size_t cnt)
{
	_cleanup_free_ bool *held = xcalloc(f->cnt + 1, sizeof(*held));
	_cleanup_close_ int fd = open_file(f, pids, cnt);
	int code = fd < 0 ? -ESTALE : 0;

	if (!code)
		code = pass_file(f, fd, pids, cnt, held);
	if (!code || code == -EPERM || code == -EACCES || code == -EINTR)
		return code;
	find_held(f, pids, cnt, held, true);
	return 0;
}

/* Attaching and detaching a probe once removes a breakpoint, unless another probe uses it. */
int breaks_heal(int dir_fd)
{
	__cleanup(breaks_done) struct breaks b = {};
	_cleanup_free_ pid_t *pids = NULL;
	size_t cnt = 0;
	int code = breaks_read(dir_fd, &b);

	if (code) /* groups of earlier versions have no record */
		return code == -ENOENT || code == -EPROTO ? 0 : code;
	code = proc_pids("/proc", &pids, &cnt, NULL);
	for (size_t i = 0; !code && i < b.cnt; i++)
		code = heal_file(&b.files[i], pids, cnt);
	return code;
}

/* --- removing a group, and waiting until its probes are gone ------------------------------- */

#define POLL_MS     2
#define POLL_MAX_MS 128
#define MANY_LINKS  32
#define HELD_MS     2000
#define STUCK_MS    10000
#define TRIES       3 /* if the process that closes the links is killed */
#define CLOSERS 16
#define BIG     256 /* probes */

/* --- closing links ------------------------------------------------------------------------- */

/*
 * Closes pinned links completely, even if the command is killed meanwhile.
 *
 * The close() that drops the last reference of a link waits until its probes are gone, 20 to
 * 150 ms. If unlink() drops it, kernel workers detach the probes, and no process can find out when
 * they are done: another worker closes the file of a perf event after the program's id is gone.
 *
 * So each link is opened, unpinned and closed, and several threads do this in parallel. Links with
 * many probes are closed one after the other: each probe takes a kernel-wide lock, which two
 * threads would pass back and forth. (Perf events wait for each other anyway.)
 *
 * All this runs in a process of apart_run(), because an interrupted close leaves breakpoints.
 */
struct link_pin {
	char *name;            /* in its directory; owned by the caller */
	struct link_info info; /* zeros: not known */
	bool unpinned;
};

/* Shared by both processes; changing members are accessed atomically. */
struct closing {
	int dir_fd;
	const struct link_pin *pins; /* big ones first */
	size_t cnt, big_cnt;
	size_t next_big, next, done;
	int code;
	bool unfinished; /* the kernel still frees some */
	bool unpinned[];
};

static void close_from(struct closing *c, size_t *next, size_t end)
{
	size_t i;

	while (!apart_stop() && (i = __atomic_fetch_add(next, 1, __ATOMIC_SEQ_CST)) < end) {
		_cleanup_close_ int fd = bpffs_get(c->dir_fd, c->pins[i].name, 0);

		if (unlinkat(c->dir_fd, c->pins[i].name, 0))
			__atomic_store_n(&c->code, -errno, __ATOMIC_SEQ_CST);
		else
			c->unpinned[i] = true;
		if (fd >= 0 && !link_close(TAKE_FD(fd), LINK_CLOSE_NS))
			__atomic_store_n(&c->unfinished, true, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&c->done, 1, __ATOMIC_SEQ_CST);
	}
}

static void *closer(void *arg)
{
	struct closing *c = arg;

	close_from(c, &c->next, c->cnt);
	return NULL;
}

static void *big_closer(void *arg)
{
	struct closing *c = arg;

	close_from(c, &c->next_big, c->big_cnt);
	return closer(c);
}

/* Threads block all signals. If none can be started, this function closes the links itself. */
static void close_all(void *arg)
{
	struct closing *c = arg;
	pthread_t thread[CLOSERS];
	size_t started = 0;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; started < CLOSERS && started < c->cnt; started++)
		if (pthread_create(&thread[started], NULL,
			    started ? closer : big_closer, c))
			break;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!started)
		big_closer(c);
	while (started)
		pthread_join(thread[--started], NULL);
}

struct progress {
	const struct closing *c;
	bpffs_progress_fn fn;
	void *arg;
};

static void on_tick(void *arg)
{
	const struct progress *p = arg;

	if (p->fn)
		p->fn(__atomic_load_n(&p->c->done, __ATOMIC_SEQ_CST), p->c->cnt, p->arg);
}

DEFINE_ORDER(compare_probes, struct link_pin, FALLING(info.probes))

/*
 * Unpins and closes @pins[@cnt] of the directory @dir_fd, fills in their .info, and sorts them.
 * When it returns, all links are gone that no other process holds; the kernel has not yet freed the
 * programs of some if *@ret_unfinished. After an error or the death of the caller some links are still
 * pinned, but none is partly closed. @progress may be NULL.
 *
 * Returns 0, -errno of an unpin that failed, or -EINTR.
 */
static int links_close(int dir_fd, struct link_pin *pins, size_t cnt, bpffs_progress_fn progress,
	void *arg, bool *ret_unfinished)
{
	size_t size = sizeof(struct closing) + cnt * sizeof(bool);
	struct closing *c = apart_alloc(size);
	struct progress p = { c, progress, arg };
	int code;

	for (size_t i = 0; i < cnt; i++) {
		_cleanup_close_ int fd = bpffs_get(dir_fd, pins[i].name, 0);

		if (fd >= 0)
			link_get_info(fd, &pins[i].info);
		c->big_cnt += pins[i].info.probes >= BIG;
	}
	qsort(pins, cnt, sizeof(*pins), compare_probes);
	c->dir_fd = dir_fd;
	c->pins = pins;
	c->cnt = cnt;
	c->next = c->big_cnt;
	apart_run(close_all, c, on_tick, &p);
	for (size_t i = 0; i < cnt; i++)
		pins[i].unpinned = c->unpinned[i];
	code = c->code ? c->code : c->done < cnt ? -EINTR : 0;
	*ret_unfinished |= c->unfinished;
	apart_free(c, size);
	return code;
}

/* --- waiting for objects to be freed ------------------------------------------------------- */

/* Ids of links, BPF programs or maps that the kernel has not freed yet. */
struct idlist {
	__u32 *id;
	size_t cnt;
};

static void idlist_done(struct idlist *list)
{
	free(list->id);
}

static void idlist_add(struct idlist *list, __u32 id)
{
	for (size_t i = list->cnt > 8 ? list->cnt - 8 : 0; i < list->cnt; i++)
		if (list->id[i] == id)
			return;
	*array_add(list->id, list->cnt) = id;
}

/* Drops ids that are gone. Without CAP_SYS_ADMIN, ids cannot be listed, and all count as gone. */
static void idlist_prune(struct idlist *list, int (*next)(__u32 start, __u32 *id))
{
	size_t kept = 0;
	__u32 id;

	for (size_t i = 0; i < list->cnt; i++)
		if (next(list->id[i] - 1, &id) == 0 && id == list->id[i])
			list->id[kept++] = id;
	list->cnt = kept;
}

struct removal {
	struct idlist links, progs, maps;
	bool unfinished; /* the kernel keeps programs and maps longer: see enum link_closing_state */
};

typedef int (*pin_fn)(int dir_fd, const char *name, void *arg);

/* Calls @fn for each pin whose name begins with @prefix; stops at the first failure. */
static int for_each_pin(int dir_fd, const char *prefix, pin_fn fn, void *arg)
{
	_cleanup_closedir_ DIR *dir = dir_open_at(dir_fd, ".");
	struct dirent *d;
	int code = 0;

	if (!dir)
		return -errno;
	while (!code && (d = readdir(dir)))
		if (d->d_type != DT_DIR && !strncmp(d->d_name, prefix, strlen(prefix)))
			code = fn(dir_fd, d->d_name, arg);
	return code;
}

static int unpin_map_fn(int dir_fd, const char *name, void *arg)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, name, 0);
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);
	struct removal *r = arg;
	bool known = fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0;

	if (unlinkat(dir_fd, name, 0))
		return -errno;
	if (known)
		idlist_add(&r->maps, info.id);
	return 0;
}

/* --- links ----------------------------------------------------------------------------------- */

struct pins {
	struct link_pin *pin;
	size_t cnt;
};

static void pins_done(struct pins *pins)
{
	while (pins->cnt)
		free(pins->pin[--pins->cnt].name);
	free(pins->pin);
}

static int add_pin(int dir_fd, const char *name, void *arg)
{
	struct pins *pins = arg;

	(void)dir_fd;
	*array_add(pins->pin, pins->cnt) = (struct link_pin) { .name = xstrdup(name) };
	return 0;
}

static int unpin_links(int dir_fd, struct removal *r, bpffs_progress_fn progress, void *arg)
{
	__cleanup(pins_done) struct pins pins = {};
	int code = for_each_pin(dir_fd, "link_", add_pin, &pins);

	if (!code && pins.cnt)
		code = links_close(dir_fd, pins.pin, pins.cnt, progress, arg, &r->unfinished);
	for (size_t i = 0; i < pins.cnt; i++) {
		const struct link_pin *pin = &pins.pin[i];

		/* A link that is still pinned would never disappear. */
		if (pin->unpinned && pin->info.id) {
			idlist_add(&r->links, pin->info.id);
			idlist_add(&r->progs, pin->info.prog_id);
		}
	}
	return code;
}

/*
 * The kernel frees a link's id before its probes, and the program's id after them (bpf_link_free:
 * id, release, program). So no probe fires any more when the last program id is gone. Maps go last.
 *
 * Other processes may hold BPF programs and maps open, so the wait for these ends after HELD_MS.
 * Returns -EBUSY if no link has disappeared for STUCK_MS, because other processes hold them.
 */
static int removal_wait(struct removal *r, bpffs_progress_fn progress, void *arg)
{
	long pause_ms = POLL_MS, held_ms = 0, stuck_ms = 0;
	size_t total = r->links.cnt, before;

	while (held_ms < HELD_MS) {
		before = r->links.cnt;
		idlist_prune(&r->links, bpf_link_get_next_id);
		stuck_ms = r->links.cnt && r->links.cnt == before ? stuck_ms + pause_ms : 0;
		if (stuck_ms >= STUCK_MS)
			return -EBUSY;
		if (progress)
			progress(total - r->links.cnt, total, arg);
		if (!r->links.cnt) {
			idlist_prune(&r->progs, bpf_prog_get_next_id);
			idlist_prune(&r->maps, bpf_map_get_next_id);
			held_ms += pause_ms;
		}
		if (!r->links.cnt && (r->unfinished || (!r->progs.cnt && !r->maps.cnt)))
			return 0;
		sleep_ms(pause_ms);
		/* The kernel needs minutes for one link per probe, so polling must be cheap. */
		if (r->links.cnt > MANY_LINKS && pause_ms < POLL_MAX_MS)
			pause_ms *= 2;
		else if (r->links.cnt <= MANY_LINKS)
			pause_ms = POLL_MS;
	}
	return 0;
}

static void removal_done(struct removal *r)
{
	idlist_done(&r->links);
	idlist_done(&r->progs);
	idlist_done(&r->maps);
}

/* True if the process that replaced links of the group was killed: nothing has ended its turn. */
static bool handover_was_killed(int dir_fd)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, map_pin_name(MAPID_CTL), BPF_F_RDONLY);
	struct fsn_ctl ctl;
	uint32_t zero = 0, cnt;

	return fd >= 0 && !map_check(fd, MAPID_CTL, 0, &cnt) &&
		!bpf_map_lookup_elem(fd, &zero, &ctl) && ctl.turn;
}

/*
 * The process that closes links leaves breakpoints if it is killed. A @dead group may already have
 * such breakpoints.
 */
static int remove_links(int dir_fd, bool dead, struct removal *r, bpffs_progress_fn progress,
	void *arg)
{
	int code = -EINTR;

	dead |= handover_was_killed(dir_fd);
	for (int i = 0; code == -EINTR && i < TRIES; i++) {
		code = unpin_links(dir_fd, r, progress, arg);
		dead |= code == -EINTR;
	}
	if (code || !dead)
		return code;
	code = -EINTR;
	for (int i = 0; code == -EINTR && i < TRIES; i++)
		code = breaks_heal(dir_fd);
	return code;
}

/* Removes GROUP~, a group without its name, and waits until its probes are gone. */
static int remove_stage(struct bpffs *fs, const char *name, bool dead,
	bpffs_progress_fn progress, void *arg, struct err *err)
{
	__cleanup(removal_done) struct removal removal = { .unfinished = dead };
	char stage[GROUP_NAME_MAX + 3];
	_cleanup_close_ int fd = -1;
	int code, held;

	snprintf(stage, sizeof(stage), "%s~", name);
	fd = openat(fs->fd, stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Only directories are groups: of anything else, above all a symlink, remove the name. */
	if (fd < 0 && errno == ENOTDIR && !unlinkat(fs->fd, stage, 0))
		return 0;
	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s/%s'", fs->path, stage);
	code = remove_links(fd, dead, &removal, progress, arg);
	if (!code)
		code = for_each_pin(fd, "", unpin_map_fn, &removal);
	if (!code)
		code = bpffs_drop_lock(fd);
	if (!code && unlinkat(fs->fd, stage, AT_REMOVEDIR))
		code = -errno;
	held = removal_wait(&removal, progress, arg);
	if (code)
		return err_sys(err, code, "cannot remove '%s/%s'", fs->path, stage);
	if (held) {
		err_set(err, held, "%zu of the probes' links of '%s' are held by somebody else",
			removal.links.cnt, name);
		return err_hint(err, "'bpftool -f link show id %u' shows the process or pin; they "
				     "count until it is gone",
			removal.links.id[0]);
	}
	return 0;
}

int bpffs_remove(struct bpffs *fs, const char *name, bpffs_progress_fn progress, void *arg,
	struct err *err)
{
	return remove_stage(fs, name, false, progress, arg, err);
}

int bpffs_remove_dead(struct bpffs *fs, const char *name)
{
	return remove_stage(fs, name, true, NULL, NULL, NULL);
}
