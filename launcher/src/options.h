/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The command line of toposeat-exec. */
#ifndef TOPOSEAT_LAUNCHER_OPTIONS_H
#define TOPOSEAT_LAUNCHER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum tps_mode { TPS_PERMUTE, TPS_MASK, TPS_ROTATE, TPS_CPU_ONLY };
enum tps_ids { TPS_IDS_AUTO, TPS_IDS_INTEGER, TPS_IDS_UUID };
enum tps_memory { TPS_MEMORY_PREFERRED, TPS_MEMORY_BIND, TPS_MEMORY_NONE };

/* What --strict ends with, here and in `toposeat run`, whose documentation says it to users. */
enum { TPS_EXIT_NOT_AS_PLACED = 98 };

struct tps_options {
  const char *placement;      /* -m */
  enum tps_mode mode;         /* --visibility */
  enum tps_ids ids;           /* --ids */
  enum tps_memory memory;     /* --memory-policy */
  const char *report_folder;  /* --report */
  const char *probe;          /* --probe */
  const char *local_rank_env; /* --local-rank-env */
  const char *home;           /* --home */
  const char *records;        /* --records: RUN:FOLDER */
  const char *collect;        /* --collect: RUN:HOME; nothing is started */
  const char *leave;          /* --leave: RUN:HOME; the same */
  const char *borrow;         /* --borrow: the OpenCL library of lent devices */
  const char *vendors;        /* --local-too: where to list the node's own vendors beside it */
  const char **assignments;   /* -E, each KEY=VALUE */
  size_t assignment_count;
  const char **preloads; /* --preload, each a library; the first given comes first */
  size_t preload_count;
  unsigned long open_files; /* 0: as they are */
  unsigned long parent;     /* --end-with; 0: nobody */
  bool elastic;             /* the world may have other nodes than the placement */
  bool strict;
  bool dry_run;
  char **program; /* NULL-terminated */
};

enum tps_parsed { TPS_PARSED_RUN, TPS_PARSED_HELP, TPS_PARSED_VERSION, TPS_PARSED_ERROR };

/* On TPS_PARSED_ERROR `error` holds the cause. */
enum tps_parsed tps_options_parse(struct tps_options *options, int argc, char **argv, char *error,
                                  size_t error_size);

const char *tps_mode_name(enum tps_mode mode);

extern const char tps_help_text[];

#endif
