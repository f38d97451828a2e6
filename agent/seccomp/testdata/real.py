# A Python program that does what scanners written in Python do. It prints one
# line per piece of work, the same on every run.
import asyncio, concurrent.futures, hashlib, mmap, multiprocessing, os, re, shutil, socket, subprocess, sys, tempfile, threading, zlib

def square(n):
    return n * n

async def echo():
    async def serve(r, w):
        w.write(await r.read(5)); await w.drain(); w.close()
    s = await asyncio.start_server(serve, '127.0.0.1', 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())
    w.write(b'hello')
    back = await r.read(5)
    w.close(); s.close()
    p = await asyncio.create_subprocess_exec(sys.executable, '-c', 'print(6*7)', stdout=subprocess.PIPE)
    out, _ = await p.communicate()
    return back, out

def main():
    sys.stderr.write(re.search(r'^Seccomp:.*$', open('/proc/self/status').read(), re.M)[0] + '\n')
    total, lock = [0], threading.Lock()
    def count():
        for _ in range(1000):
            with lock:
                total[0] += 1
    threads = [threading.Thread(target=count) for _ in range(16)]
    [t.start() for t in threads]; [t.join() for t in threads]
    print('threads counted', total[0])

    d = tempfile.mkdtemp(dir='.')
    for i in range(50):
        with open(os.path.join(d, str(i)), 'wb') as f:
            f.write(b'x' * i)
    h = hashlib.sha256()
    for root, _, names in os.walk(d):
        for n in sorted(names):
            h.update(open(os.path.join(root, n), 'rb').read())
    print('files', h.hexdigest()[:8], zlib.crc32(b'x'))
    shutil.rmtree(d)
    m = mmap.mmap(-1, 4096); m[:5] = b'hello'; print('mmap', m[:5])

    with multiprocessing.get_context('fork').Pool(3) as pool:
        print('fork pool', pool.map(square, range(5)))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('spawn')) as pool:
        print('spawn pool', list(pool.map(square, range(5))))
    print('subprocess', subprocess.run([sys.executable, '-c', 'import sys; print(1); sys.exit(7)'], capture_output=True).returncode)
    a, b = socket.socketpair()
    a.sendall(b'hello'); print('socketpair', b.recv(5))
    print('asyncio', asyncio.run(echo()))
    print('interfaces', len(socket.if_nameindex()) >= 0, os.cpu_count() > 0)
    print('done')

if __name__ == '__main__':
    main()
