// SPDX-License-Identifier: BSD-2-Clause
// Where probes go, written down in their folder: a map that no program uses.
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "pins/bpffs.h"
#include "pins/breaks.h"
#include "pins/maps.h"
#include "internal.h"

#define PIN     "breaks"
#define VERSION 1
#define PIECE   4096 /* bytes of the map's values */
#define MOST    (64U << 20)

/* The map's bytes: a head; for each file its part, its path (padded) and its offsets. */
struct head {
	uint32_t version, files;
	uint64_t bytes; /* all of them, this included */
};

struct part {
	uint64_t dev, ino, size, ctime_ns, cnt;
	uint32_t overlay, path_bytes; /* with the padding: a multiple of 8 */
};

/* --- writing -------------------------------------------------------------------------------- */

static int put_file(FILE *f, const struct breaks_file *file)
{
	static const char padding[8];
	size_t len = strlen(file->path) + 1, pad = -len % 8;
	struct part part = { file->dev, file->ino, file->size, file->ctime_ns, file->cnt,
		file->overlay, len + pad };

	fwrite(&part, sizeof(part), 1, f);
	fwrite(file->path, len, 1, f);
	fwrite(padding, pad, 1, f);
	fwrite(file->offsets, sizeof(*file->offsets), file->cnt, f);
	return ferror(f) ? -ENOMEM : 0;
}

/* Whole pieces, in memory. */
static int blob_make(const struct breaks_file *files, size_t cnt, char **ret_blob,
	size_t *ret_pieces)
{
	struct head head = { VERSION, cnt, 0 };
	char *blob = NULL, *whole;
	size_t size = 0;
	FILE *f = open_memstream(&blob, &size);
	int code = f ? 0 : -ENOMEM;

	if (f)
		fwrite(&head, sizeof(head), 1, f);
	for (size_t i = 0; !code && i < cnt; i++)
		code = put_file(f, &files[i]);
	if (f && fclose(f) && !code)
		code = -ENOMEM;
	*ret_pieces = (size + PIECE - 1) / PIECE;
	whole = code ? NULL : realloc(blob, *ret_pieces * PIECE);
	if (!whole) {
		free(blob);
		return code ? code : -ENOMEM;
	}
	memset(whole + size, 0, *ret_pieces * PIECE - size);
	head.bytes = size;
	memcpy(whole, &head, sizeof(head));
	*ret_blob = whole;
	return 0;
}

int breaks_write(const struct breaks_file *files, size_t cnt, int dir_fd, struct err *err)
{
	_cleanup_free_ char *blob = NULL;
	_cleanup_close_ int fd = -1;
	size_t pieces;
	int code = blob_make(files, cnt, &blob, &pieces);

	if (code)
		return err_sys(err, code, "cannot write down the probes");
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

/* Takes @size bytes off what is left; NULL when there are not as many. */
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

int breaks_read(int dir_fd, struct breaks *ret_breaks)
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

void breaks_done(struct breaks *b)
{
	free(b->blob);
	free(b->files);
}
