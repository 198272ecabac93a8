"""Print a token for a user, signed with PyJWT: python3 mint.py private.pem alice

A server with --jwt-key @public.pem --jwt-audience push accepts it.
"""

import sys
import time
from pathlib import Path

import jwt

key_file, user = sys.argv[1:]
now = int(time.time())
claims = {
    "sub": user,
    "aud": "push",
    "iat": now,
    "exp": now + 300,
    "thalweg": {"subscribe": ["users/{sub}/**", "news/*"], "publish": ["users/{sub}/out"]},
}
print(jwt.encode(claims, Path(key_file).read_text(), algorithm="ES256"))
