"""Another program, another machine."""

import subprocess
from urllib.request import urlopen

import requests


async def ask(command, url):
    subprocess.run(command)  # BAD
    child = subprocess.Popen(command)
    child.wait()  # BAD
    requests.get(url)  # BAD
    return urlopen(url)  # BAD
