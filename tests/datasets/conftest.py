import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for trees.py: test folders are no packages
