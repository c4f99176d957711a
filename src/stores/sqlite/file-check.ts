// Detects that a database's files were replaced, removed, truncated or overwritten while this process uses them.
import { fstatSync, ftruncateSync, readdirSync, readlinkSync, readSync, realpathSync, statSync } from "node:fs";
import { HoldfastError } from "../../core/errors.ts";

/** Milliseconds between two checks. A check costs about 50 µs of CPU. */
const interval = 100;
/** SQLite maps the first 32 KB of the shared-memory file. Reading beyond the file's end kills the process (SIGBUS). */
const sharedMemory = 32 * 1024;

/** Bytes of the smallest page. */
const smallestFile = 512;

/** A file that SQLite has open. `handle` is its file descriptor, known only on Linux. */
interface OpenFile {
  path: string;
  device: number;
  inode: number;
  handle?: number;
}

/**
 * Returns a function that throws if the files at a path are not the files that SQLite has open. It checks at most ten
 * times a second. Commits to a removed file would succeed, and would be missing after a restart.
 *
 * On Linux it also reads the files' headers, using SQLite's own handles. Closing another handle to the same file would
 * drop this process's locks.
 */
export function createFileCheck(path: string, applicationId: number, assertVersion: () => void): () => void {
  // Runs a query first, because SQLite creates a new file's log and shared memory with the first transaction.
  assertVersion();
  const [database, log, shared] = ["", "-wal", "-shm"].map((end) => findOpen(`${path}${end}`)) as [
    OpenFile | undefined,
    OpenFile | undefined,
    OpenFile | undefined,
  ];
  let changes = 0;
  let length = 0;
  let due = 0;
  let failure: unknown;

  function failed(code: "store_failed" | "store_corrupt", what: string, todo: string): HoldfastError {
    return new HoldfastError(code, `${what} while this process was using it; ${todo}`);
  }

  function assertInPlace({ path, device, inode }: OpenFile): void {
    const found = statSync(path, { throwIfNoEntry: false });
    const todo = "restore the file, or restart this process to use the file that is now at this path";
    if (found === undefined) throw failed("store_failed", `${path} was removed or renamed`, todo);
    if (found.dev !== device || found.ino !== inode) throw failed("store_failed", `${path} was replaced`, todo);
  }

  /** Checks the first page of the database file, without the changes in its log. */
  function assertHeader(file: OpenFile): void {
    const todo = "stop this process and restore a back-up";
    const { size } = statSync(file.path);
    if (size < smallestFile) throw failed("store_corrupt", `${file.path} was truncated`, todo);
    const header = readStart(file, 100);
    if (header === undefined) return;
    const counted = header.readUInt32BE(24);
    const isOurs = header.toString("latin1", 0, 15) === "SQLite format 3" && header.readUInt32BE(68) === applicationId;
    // SQLite only increases this counter, so a lower value belongs to an older copy.
    if (!isOurs || counted < changes) throw failed("store_corrupt", `${file.path} was overwritten`, todo);
    changes = counted;
    // VACUUM may shorten a file. In that case the header counts fewer pages.
    const index = size < length && shared ? readIndex(shared) : undefined;
    if (index && index.readUInt32LE(20) * pageSizeIn(index) >= length) {
      throw failed("store_corrupt", `${file.path} was truncated`, todo);
    }
    length = size;
  }

  /** Checks that the log still has all frames that the shared memory counts. */
  function assertLog(log: OpenFile, shared: OpenFile): void {
    const index = readIndex(shared);
    if (index === undefined || index.readUInt32LE(16) === 0) return;
    const { size } = statSync(log.path);
    const header = readStart(log, 32);
    // Another process may have started a new log in the meantime.
    if (!readIndex(shared)?.equals(index)) return;
    const isWhole = size >= 32 + index.readUInt32LE(16) * (24 + pageSizeIn(index));
    if (isWhole && (header === undefined || header.subarray(16, 24).equals(index.subarray(32, 40)))) return;
    throw failed(
      "store_corrupt",
      `${log.path} was truncated or overwritten`,
      "stop this process and restore a back-up",
    );
  }

  function check(): void {
    if (shared) repairSharedMemory(shared);
    for (const file of [database, log, shared]) if (file) assertInPlace(file);
    if (database) assertHeader(database);
    if (log && shared) assertLog(log, shared);
    assertVersion();
  }

  return () => {
    const now = performance.now();
    if (now >= due) {
      due = now + interval;
      failure = undefined;
      try {
        check();
      } catch (thrown) {
        failure = thrown;
      }
    }
    if (failure !== undefined) throw failure as Error;
  };
}

/** Reads the header of the shared memory; undefined while a process changes it, because its two copies differ. */
function readIndex(shared: OpenFile): Buffer | undefined {
  const copies = readStart(shared, 96);
  return copies?.subarray(0, 48).equals(copies.subarray(48)) ? copies.subarray(0, 48) : undefined;
}

/** The page size in the header of the shared memory, where 65,536 is written as 1. */
function pageSizeIn(index: Buffer): number {
  return index.readUInt16LE(14) === 1 ? 65_536 : index.readUInt16LE(14);
}

/** Makes a truncated shared-memory file long enough again. SQLite finds zeros in it, and rebuilds it from the log. */
function repairSharedMemory(shared: OpenFile): void {
  if (holds(shared) && fstatSync(shared.handle!).size < sharedMemory) ftruncateSync(shared.handle!, sharedMemory);
}

/** Reads the start of a file through the handle of SQLite; undefined if the handle is unknown. */
function readStart(file: OpenFile, length: number): Buffer | undefined {
  const bytes = Buffer.alloc(length);
  return holds(file) && readSync(file.handle!, bytes, 0, length, 0) === length ? bytes : undefined;
}

/** Returns whether SQLite's handle still belongs to the file. If not, looks for the current handle. */
function holds(file: OpenFile): boolean {
  const { device, inode } = file;
  const isSame = (handle: number): boolean => {
    const { dev, ino } = fstatSync(handle);
    return dev === device && ino === inode;
  };
  try {
    if (file.handle !== undefined && isSame(file.handle)) return true;
  } catch {
    // Closed.
  }
  file.handle = handlesOf(file.path).find(isSame);
  return file.handle !== undefined;
}

function findOpen(path: string): OpenFile | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  const file: OpenFile = { path, device: found.dev, inode: found.ino };
  holds(file);
  return file;
}

/** Returns this process's handles for a path; none if the system does not list them. */
function handlesOf(path: string): number[] {
  try {
    const real = realpathSync(path);
    return readdirSync("/proc/self/fd").flatMap((name) => {
      try {
        return readlinkSync(`/proc/self/fd/${name}`) === real ? [Number(name)] : [];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}
